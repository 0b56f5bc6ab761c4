import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ask, beginPairing, pair, Refused, start, type Pairing } from './devices-kit.js'
import type { AskNode } from '../signing/pair.js'
import type { Rig } from '../../../kernel/testing/index.js'

interface View {
  open: boolean
  triesLeft: number
  device: { attempt: string, digits: string, name: string, deviceId: string } | null
}
const view = async (rig: Rig): Promise<View> => await ask(rig, 'GET', '/v1/devices/pairing')
const open = async (rig: Rig, body: object = {}): Promise<View> =>
  await ask(rig, 'POST', '/v1/devices/pairing', body)

t.test('a device is paired: the same digits on both sides, then the grant', async (t) => {
  const rig = await start(t)
  const opened = await open(rig, { name: 'my phone', maxOfflineSeconds: 7200 })
  t.match(opened, { open: true, triesLeft: 25, device: null, authorities: ['read', 'invoke'] })
  const { attempt, device, digits } = await beginPairing(rig, { name: 'Pixel 9' })
  t.match(digits, /^\d{6}$/)
  t.match((await view(rig)).device, { digits, name: 'Pixel 9', attempt })
  const made = await ask(rig, 'POST', '/v1/devices/pairing/confirm', { attempt, digits })
  const { deviceId, grant } = await device
  t.match(made, {
    deviceId, name: 'my phone', authorities: ['read', 'invoke'], viaRelay: ['read', 'invoke'], by: 'local',
    maxOfflineSeconds: 7200, lastUsedDay: null, state: 'active'
  })
  t.equal(Date.parse(grant.expires) - rig.clock.now(), 90 * 86_400_000)
  t.equal((await view(rig)).open, false, 'for one device only')
  t.match(await ask(rig, 'GET', '/v1/devices'), { devices: [{ deviceId }] })
  t.match(await ask(rig, 'GET', `/v1/devices/${deviceId}`), { name: 'my phone' })
  t.same(rig.events.map(({ kind }) => kind), ['DevicePairingOpened', 'DevicePaired'])
  t.match(rig.events[1]!.payload, { deviceId, by: 'local' })
})

/** A man in the middle with different keys for each side; `change` alters the messages. */
const between = (rig: Rig, change: (path: string, body: Record<string, unknown>) => void): AskNode =>
  async <T>(path: string, body?: object) => {
    const sent = structuredClone(body) as Record<string, unknown> | undefined
    const answer = await ask<Record<string, unknown>>(rig, sent === undefined ? 'GET' : 'POST', path, sent)
    change(path, answer)
    return answer as T
  }

t.test('whoever sits between is seen by other digits, or refused', async (t) => {
  const rig = await start(t)
  await open(rig)
  // The man in the middle replaces the node's nonce, so the transcripts differ.
  const { device } = await beginPairing(rig, {
    through: between(rig, (path, answer) => {
      if (path === '/v1/devices/pair') (answer['node'] as { nonce: string }).nonce = 'A'.repeat(22)
    })
  }).catch((error: unknown) => ({ device: Promise.reject(error as Error) }))
  await t.rejects(device, { reason: 'pairing_failed' } as never, 'the proof is over another transcript')
  t.equal((await view(rig)).device, null)
  // A man in the middle who forwards the keys and lies about the outcome cannot authenticate the answer.
  const second = await beginPairing(rig, {
    through: between(rig, (_path, answer) => {
      if ('state' in answer) Object.assign(answer, { state: 'paired', answer: '{}', mac: 'x' })
    })
  })
  await t.rejects(second.device, /does not come from the node/)
})

t.test('keys of somebody between, on both sides, give other digits', async (t) => {
  const [node, middle] = [await start(t), await start(t)]
  await Promise.all([open(node), open(middle)])
  // The device talks to the man in the middle, who talks to the node as a device of the same name.
  const device = await beginPairing(middle, { name: 'phone' })
  const forged = await beginPairing(node, { name: 'phone' })
  t.not(device.digits, forged.digits)
  await t.rejects(ask(node, 'POST', '/v1/devices/pairing/confirm',
    { attempt: forged.attempt, digits: device.digits }), { reason: 'pairing_failed' } as never)
  await Promise.all([node, middle].map(async (rig) => { await ask(rig, 'DELETE', '/v1/devices/pairing') }))
  await t.rejects(forged.device)
  await t.rejects(device.device)
})

/** A second pairing message with made-up keys. */
const shown = {
  key: 'B'.repeat(43), agreementKey: 'C'.repeat(43), ephemeral: 'D'.repeat(43), nonce: 'E'.repeat(22),
  name: 'x', proof: 'F'.repeat(86)
}

t.test('what was committed to must be what is shown', async (t) => {
  const rig = await start(t)
  const begin = async (): Promise<string> => {
    const commit = 'A'.repeat(43)
    return (await ask<{ attempt: string }>(rig, 'POST', '/v1/devices/pair', { commit })).attempt
  }
  await t.rejects(begin(), { reason: 'pairing_closed' } as never)
  await open(rig)
  for (let left = 24; left >= 20; left--) {
    const attempt = await begin()
    await t.rejects(begin(), { reason: 'pairing_busy' } as never, 'one at a time')
    for (const reason of ['pairing_failed', 'pairing_closed']) {
      await t.rejects(ask(rig, 'POST', `/v1/devices/pair/${attempt}`, shown), { reason } as never)
    }
    t.equal((await view(rig)).triesLeft, left)
  }
  await t.rejects(begin(), { reason: 'pairing_closed' } as never, 'five tries from one address')
  t.equal((await view(rig)).open, true, 'for others it stays open')
  t.same(await ask(rig, 'GET', '/v1/devices'), { devices: [] })
})

const COMMIT = { commit: 'A'.repeat(43) }
const closed = { reason: 'pairing_closed' } as never

t.test('bogus attempts from one address leave the window to the others', async (t) => {
  const rig = await start(t)
  await open(rig)
  for (let i = 0; i < 8; i++) {
    // All addresses of one IPv6 network share the limit.
    const from = `2001:db8:0:1::${i}`
    const { attempt } = await ask<{ attempt: string }>(rig, 'POST', '/v1/devices/pair', COMMIT, from)
      .catch((error: unknown) => {
        t.ok(i >= 5, `try ${i} is refused`)
        t.match(error, { reason: 'pairing_closed' })
        return { attempt: null }
      })
    if (attempt !== null) await ask(rig, 'POST', `/v1/devices/pair/${attempt}`, shown, from).catch(() => {})
  }
  // An attacker with real keys reaches the operator first, and tries again after each refusal.
  const attacker = async () => await beginPairing(rig, { name: 'phone', from: '192.0.2.66' })
  const first = await attacker()
  await t.rejects(attacker(), { reason: 'pairing_busy' } as never, 'one at a time from an address')
  const phone = await beginPairing(rig, { from: '192.0.2.7' })
  t.not(first.digits, phone.digits)
  t.equal((await view(rig)).device!.digits, first.digits)
  await ask(rig, 'POST', '/v1/devices/pairing/refuse', { attempt: first.attempt })
  const second = await attacker()
  const { attempt, digits } = (await view(rig)).device!
  t.equal(digits, phone.digits, 'whoever waits longest comes first')
  t.match(await ask(rig, 'POST', '/v1/devices/pairing/confirm', { attempt, digits }), { state: 'active' })
  t.equal((await phone.device).grant.name, 'phone')
  for (const { device } of [first, second]) await t.rejects(device, /did not confirm/)
  t.equal((await view(rig)).open, false, 'for one device')
})

t.test('attempts from many addresses are counted in all, and take nobody\'s place', async (t) => {
  const rig = await start(t)
  await open(rig)
  const phone = await beginPairing(rig, { from: '192.0.2.7' })
  for (let i = 0; i < 24; i++) await ask(rig, 'POST', '/v1/devices/pair', COMMIT, `198.51.100.${i}`)
  await t.rejects(ask(rig, 'POST', '/v1/devices/pair', COMMIT, '203.0.113.1'), closed)
  const { attempt, digits } = phone
  t.match(await view(rig), { open: true, triesLeft: 0, device: { digits } })
  await ask(rig, 'POST', '/v1/devices/pairing/confirm', { attempt, digits })
  await t.resolves(phone.device)
})

t.test('nothing is granted or kept unless both sides say that the digits are the same', async (t) => {
  const rig = await start(t)
  const confirm = async ({ attempt, digits }: Pairing): Promise<unknown> =>
    await ask(rig, 'POST', '/v1/devices/pairing/confirm', { attempt, digits })
  const refused = { reason: 'pairing_failed' } as never
  await open(rig)
  for (const first of ['the operator', 'the device']) {
    let answer = (_same: boolean): void => {}
    const device = await beginPairing(rig, { same: new Promise((resolve) => { answer = resolve }) })
    if (first === 'the device') {
      answer(false)
      await t.rejects(device.device, /the digits differ/)
      await t.rejects(confirm(device), closed, 'it is gone')
    } else {
      const confirmed = confirm(device)
      const over = t.rejects(confirmed, refused, 'the operator hears of it')
      // The node creates no grant before the device confirms the digits.
      await rig.clock.advance(10_000)
      t.same(await ask(rig, 'GET', '/v1/devices'), { devices: [] })
      answer(false)
      await t.rejects(device.device, /the digits differ/)
      await over
    }
  }
  const silent = await beginPairing(rig, { same: new Promise(() => {}) })
  const confirmed = t.rejects(confirm(silent), refused, 'nor by a device that says nothing')
  await rig.clock.advance(120_000)
  await confirmed
  t.same(await ask(rig, 'GET', '/v1/devices'), { devices: [] })
  t.same(rig.events.map(({ kind, payload }) => [kind, payload['by']]),
    [['DevicePairingOpened', 'local'], ['DeviceRefused', 'device'], ['DeviceRefused', 'device']])
})

t.test('through somebody between, whose digits differ, a device that says no signs nothing', async (t) => {
  const [node, middle] = [await start(t), await start(t)]
  await Promise.all([open(node), open(middle)])
  const asked: string[] = []
  const through: AskNode = async <T>(path: string, body?: object) => {
    asked.push(path)
    return await ask<T>(middle, body === undefined ? 'GET' : 'POST', path, body)
  }
  const forged = await beginPairing(node)
  let answer = (_same: boolean): void => {}
  const device = await beginPairing(middle, { through, same: new Promise((resolve) => { answer = resolve }) })
  t.not(device.digits, forged.digits)
  // The man in the middle has already confirmed the device on his own node.
  const lured = ask(middle, 'POST', '/v1/devices/pairing/confirm',
    { attempt: device.attempt, digits: device.digits }).catch(() => {})
  answer(false)
  await t.rejects(device.device, /someone is intercepting the connection/)
  await lured
  t.same(asked.filter((path) => !path.startsWith('/v1/devices/pair')), [], 'nothing is signed for it')
  t.same(await ask(middle, 'GET', '/v1/devices'), { devices: [] })
})

t.test('the window ends by itself, and with a no', async (t) => {
  const rig = await start(t)
  await open(rig)
  await t.rejects(open(rig), { reason: 'pairing_open' } as never)
  const first = await beginPairing(rig)
  await t.rejects(ask(rig, 'POST', '/v1/devices/pairing/confirm', {
    attempt: first.attempt, digits: first.digits === '000000' ? '000001' : '000000'
  }), { reason: 'pairing_failed' } as never, 'digits that nobody compared')
  await ask(rig, 'POST', '/v1/devices/pairing/refuse', { attempt: first.attempt })
  await t.rejects(first.device, /did not confirm/)
  const second = await beginPairing(rig)
  await rig.clock.advance(120_000)
  await t.rejects(second.device, /did not confirm/)
  await t.rejects(ask(rig, 'POST', '/v1/devices/pairing/confirm',
    { attempt: second.attempt, digits: second.digits }), { reason: 'pairing_closed' } as never)
  await open(rig)
  const third = await beginPairing(rig)
  await ask(rig, 'DELETE', '/v1/devices/pairing')
  await t.rejects(third.device, /did not confirm/)
  t.same(await ask(rig, 'GET', '/v1/devices'), { devices: [] })
  t.same(rig.events.map(({ kind }) => kind),
    ['DevicePairingOpened', 'DeviceRefused', 'DevicePairingOpened'])
})

t.test('of a yes and a no at once one counts, and each hears which', async (t) => {
  for (const first of ['confirm', 'refuse']) {
    const rig = await start(t)
    await open(rig)
    const { attempt, device, digits } = await beginPairing(rig)
    const bodies = { confirm: { attempt, digits }, refuse: { attempt } }
    const order = first === 'confirm' ? ['confirm', 'refuse', 'confirm'] : ['refuse', 'confirm', 'refuse']
    const heard = await Promise.all(order.map(async (word) =>
      await ask(rig, 'POST', `/v1/devices/pairing/${word}`, bodies[word as keyof typeof bodies])
        .then(() => 'done', ({ reason }: Refused) => reason)))
    t.same(heard, ['done', 'pairing_closed', 'pairing_closed'], first)
    const { devices } = await ask<{ devices: unknown[] }>(rig, 'GET', '/v1/devices')
    t.equal(devices.length, first === 'confirm' ? 1 : 0)
    if (first === 'confirm') await t.resolves(device)
    else await t.rejects(device, /did not confirm/)
  }
})

t.test('nobody gives what there is not, or what they have not', async (t) => {
  const rig = await start(t, { allow: ['operator', 'read'] })
  const year = new Date(rig.clock.now() + 401 * 86_400_000).toISOString()
  const rows: [choice: object, status: number, word: RegExp][] = [
    [{ authorities: ['fly'] }, 400, /invalid_request/],
    [{ authorities: ['read', 'invoke'] }, 401, /unauthenticated/],
    [{ authorities: ['read'], viaRelay: ['operator'] }, 400, /invalid_request/],
    [{ authorities: ['read'], expires: '2020-01-01T00:00:00Z' }, 400, /invalid_request/],
    [{ authorities: ['read'], expires: year }, 400, /invalid_request/],
    [{ authorities: ['read'], name: 'a\nb' }, 400, /invalid_request/],
    [{ authorities: ['read'], maxOfflineSeconds: 0 }, 400, /invalid_request/]
  ]
  for (const [choice, status, reason] of rows) {
    const error = await open(rig, choice).then(() => null, (e: unknown) => e as Refused)
    t.equal(error?.status, status, JSON.stringify(choice))
    t.match(error?.reason, reason)
  }
  t.equal((await view(rig)).open, false)
})

t.test('a home keeps no secret of a device', async (t) => {
  const rig = await start(t)
  const device = await pair(rig, { authorities: ['read'] })
  const path = join(rig.home, 'state', 'devices.json')
  t.ok(existsSync(path))
  t.equal(statSync(path).mode & 0o777, 0o600)
  const files = readdirSync(rig.home, { recursive: true, encoding: 'utf8' })
    .map((name) => join(rig.home, name))
    .filter((name) => statSync(name).isFile()).map((name) => readFileSync(name, 'latin1')).join('\n')
  t.match(files, device.grant.key, 'its public key')
  for (const secret of [device.keySeed, device.agreementSeed]) {
    t.notMatch(files, secret)
    t.notMatch(files, Buffer.from(secret, 'base64url').toString('hex'))
  }
})
