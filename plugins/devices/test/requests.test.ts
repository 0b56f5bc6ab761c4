import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import t from 'tap'
import WebSocket from 'ws'
import { OwnApiService, TokenService, type TokenRecord } from '../../../kernel/index.js'
import { readCredential } from '../signing/protocol.js'
import { fake } from '../../../kernel/testing/index.js'
import { MOST_NONCES, Nonces } from '../nonces.js'
import { schemeIn } from './fuzz-kit.js'
import { ask, beginPairing, pair, signerOf, start, URL_HERE } from './devices-kit.js'
import { probe, running, send, sign, type Sent } from './probe-kit.js'
import type { DeviceFile } from '../signing/device.js'
import type { RequestSigner } from '../signing/signer.js'

t.test('a signed request counts once, here, now and as it was signed', async (t) => {
  const rig = await running(t)
  const device = await pair(rig)
  const signer = signerOf(rig, device)
  const first = await sign(signer, '/who?x=1')
  t.match(await send(rig, first),
    { status: 200, body: { id: device.deviceId, mode: 'paired', authorities: ['read', 'invoke'] } })
  const post = await sign(signer, '/take', 'POST', '{"n":1}')
  t.match(await send(rig, post), { status: 200, body: { took: { n: 1 } } })
  const fresh = async (): Promise<Sent> => await sign(signer, '/take', 'POST', '{"n":1}')
  const other = signerOf(rig, { ...device, seen: { [URL_HERE]: { nodeId: 'another', aheadMs: 0 } } })
  const { authorization: bare } = await fresh()
  const rows: [title: string, sent: Sent, reason: string][] = [
    ['replayed', first, 'signature_refused'],
    ['replayed with a body', post, 'signature_refused'],
    ['another path', { ...await sign(signer, '/who?x=1'), url: '/who?x=2' }, 'signature_refused'],
    ['another method', { ...await sign(signer, '/take'), method: 'POST', payload: '{}' },
      'signature_refused'],
    ['another body', { ...await fresh(), payload: '{"n":2}' }, 'unauthenticated'],
    ['no body', { method: 'POST', url: '/take', authorization: bare }, 'unauthenticated'],
    ['to another node', await sign(other, '/who'), 'signature_refused'],
    ['90 s ahead', await sign(signerOf(rig, device, 90_000), '/who'), 'signature_refused'],
    ['90 s behind', await sign(signerOf(rig, device, -90_000), '/who'), 'signature_refused'],
    ['mangled', { url: '/who', authorization: `${bare}x` }, 'unauthenticated']
  ]
  for (const [title, sent, reason] of rows) {
    t.match(await send(rig, sent), { status: 401, reason }, title)
  }
  t.match(await send(rig, await sign(signer, '/run', 'POST')), { status: 403, reason: 'missing_grant' })
  for (const ahead of [50_000, -50_000]) {
    t.equal((await send(rig, await sign(signerOf(rig, device, ahead), '/who'))).status, 200, `${ahead} ms`)
  }
  t.match(await ask(rig, 'GET', `/v1/devices/${device.deviceId}`), { lastUsedDay: '2026-01-01' })
})

t.test('an honest device whose clock is off corrects itself, and so after a restart', async (t) => {
  const rig = await running(t)
  const device = await pair(rig)
  for (const [title, seen, ahead] of [
    ['fast', device.seen[URL_HERE]!, 11 * 60_000], ['slow', device.seen[URL_HERE]!, -11 * 60_000],
    ['another start', { nodeId: 'before', aheadMs: 0 }, 0]
  ] as const) {
    const signer = signerOf(rig, { ...device, seen: { [URL_HERE]: seen } }, ahead)
    const refused = await send(rig, await sign(signer, '/who'))
    t.match(refused, { status: 401, reason: 'signature_refused' }, title)
    t.ok(await signer.correct(refused.details), title)
    t.equal((await send(rig, await sign(signer, '/who'))).status, 200, title)
  }
})

t.test('too many wrong signatures of a device from one address are not looked at', async (t) => {
  const rig = await running(t)
  const device = await pair(rig)
  const wrong = { ...await sign(signerOf(rig, device), '/who'), url: '/who?other' }
  const seen: unknown[] = []
  for (let i = 0; i < 11; i++) seen.push((await send(rig, wrong)).reason)
  t.same([...new Set(seen)], ['signature_refused', 'overloaded'])
  await rig.clock.advance(60_000)
  t.equal((await send(rig, await sign(signerOf(rig, device), '/who'))).status, 200)
})

t.test('nonces are refused rather than forgotten, whatever the clock does', (t) => {
  const nonces = new Nonces()
  const now = 1_000_000_000
  for (let i = 0; i < MOST_NONCES; i++) nonces.add('a', now + i % 3, String(i), now)
  t.notOk(nonces.add('a', now, 'more', now), 'there is no room')
  t.ok(nonces.add('b', now, 'more', now), 'for another device there is')
  t.ok(nonces.has('a', now, '0'))
  t.notOk(nonces.has('a', now, 'more'))
  t.notOk(nonces.has('b', now, '0'))
  t.ok(nonces.add('a', now + 75_000, 'more', now + 75_000), 'there is room again')
  t.equal(nonces.size, 1)
  t.notOk(nonces.inWindow(now, now), 'what was forgotten is too old, also where the clock is set back')
  t.ok(nonces.inWindow(now + 70_000, now + 75_000))
  t.end()
})

t.test('a clock that was ahead and is set right locks no device out, and lets no replay in', async (t) => {
  const rig = await running(t)
  const right = rig.clock.now
  const device = await pair(rig)
  const signer = signerOf({ ...rig, clock: { ...rig.clock, now: right } }, device)
  const ask = async (): Promise<{ status: number, sent: Sent }> => {
    const sent = await sign(signer, '/who')
    const { status, details } = await send(rig, sent)
    if (status !== 401 || !await signer.correct(details)) return { status, sent }
    const again = await sign(signer, '/who')
    return { status: (await send(rig, again)).status, sent: again }
  }
  rig.clock.now = () => right() + 3_600_000
  const early = await ask()
  t.equal(early.status, 200)
  await rig.clock.advance(200_000)
  t.equal((await ask()).status, 200)
  rig.clock.now = right
  t.equal((await ask()).status, 200, 'at once')
  for (let hour = 1; hour <= 3; hour++) {
    t.match(await send(rig, early.sent), { status: 401, reason: 'signature_refused' }, `a replay ${hour}`)
    await rig.clock.advance(3_600_000 - 200_000)
    t.equal((await ask()).status, 200)
  }
  t.equal((await send(rig, await sign(signerOf(rig, device), '/who'))).status, 200, 'by the right time')
})

const headersOf = async (signer: RequestSigner, path: string): Promise<{ authorization: string }> =>
  ({ authorization: await signer.authorization('GET', path, undefined) })

/** Opens a stream and a WebSocket as a device and tracks whether each is open. */
async function openBoth (url: string, signer: RequestSigner) {
  const stream = { open: true }
  const call = get(`${url}/follow`, { headers: await headersOf(signer, '/follow') })
  const [response] = await once(call, 'response') as [IncomingMessage]
  response.on('error', () => {}).on('close', () => { stream.open = false }).resume()
  const path = '/state/sync'
  const ws = new WebSocket(`${url.replace('http', 'ws')}${path}`, { headers: await headersOf(signer, path) })
  await once(ws, 'open')
  return { stream, ws, status: response.statusCode }
}

async function untilTrue (holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}

t.test('what a device has open ends when it is revoked, and when its grant ends', async (t) => {
  const rig = await running(t)
  const url = await rig.listen()
  const [revoked, expiring] = [
    await pair(rig), await pair(rig, { expires: new Date(rig.clock.now() + 60_000).toISOString() })
  ]
  const ends: [device: DeviceFile, end: () => Promise<void>, reason: string][] = [
    [revoked, async () => { await ask(rig, 'DELETE', `/v1/devices/${revoked.deviceId}`) }, 'revoked'],
    [expiring, async () => { await rig.clock.advance(60_000) }, 'expired']
  ]
  for (const [device, end, why] of ends) {
    const signer = signerOf(rig, device)
    const { stream, ws, status } = await openBoth(url, signer)
    t.equal(status, 200)
    const closed = once(ws, 'close')
    await end()
    await rig.clock.advance(2500)
    t.equal((await closed)[0], 4401, why)
    await untilTrue(() => !stream.open)
    const later = await fetch(`${url}/who`, { headers: await headersOf(signer, '/who') })
    t.equal(later.status, 401)
    t.match(await later.json(), { error: { reason: 'device_ended', details: { why } } })
  }
  t.ok(rig.events.some(({ kind, payload }) => kind === 'DeviceRevoked' && payload['name'] === 'phone'))
  const { devices } = await ask<{ devices: { state: string }[] }>(rig, 'GET', '/v1/devices')
  t.same(devices.map((d) => d.state).sort(), ['expired', 'revoked'])
})

t.test('a device revokes itself, and no other without operator', async (t) => {
  const rig = await running(t)
  const [one, other] = [await pair(rig), await pair(rig)]
  const signer = signerOf(rig, one)
  const remove = async ({ deviceId }: DeviceFile) =>
    await send(rig, await sign(signer, `/v1/devices/${deviceId}`, 'DELETE'))
  t.match(await remove(other), { status: 403, reason: 'missing_grant' })
  t.match(await send(rig, await sign(signer, '/v1/devices/self', 'DELETE')),
    { status: 200, body: { revoked: true } })
  t.match(await remove(one), { status: 401, reason: 'device_ended' })
  t.equal((await send(rig, await sign(signerOf(rig, other), '/who'))).status, 200)
  const nobody = ask(rig, 'DELETE', `/v1/devices/${'a'.repeat(52)}`)
  await t.rejects(nobody, { reason: 'device_not_found' } as never)
})

t.test('a device that leaves several times at once is gone once', async (t) => {
  const rig = await running(t)
  const device = await pair(rig)
  const signer = signerOf(rig, device)
  const leaving = await Promise.all(Array.from({ length: 5 }, async () =>
    await sign(signer, '/v1/devices/self', 'DELETE')))
  const answers = await Promise.all([
    ...leaving.map(async (one) => (await send(rig, one)).status),
    rig.inject({ method: 'DELETE', url: `/v1/devices/${device.deviceId}` }).then((one) => one.statusCode)
  ])
  t.ok(answers.every((status) => [200, 401, 404].includes(status)), answers.join())
  t.ok(answers.includes(200))
  t.equal(rig.events.filter(({ kind }) => kind === 'DeviceRevoked').length, 1)
  t.match(await ask(rig, 'GET', `/v1/devices/${device.deviceId}`), { state: 'revoked' })
  t.equal((await send(rig, await sign(signer, '/who'))).status, 401)
})

t.test('what a device lets in ends with it, and no later', async (t) => {
  const rig = await running(t)
  const maker = await pair(rig, { authorities: ['operator', 'read'], viaRelay: ['read'] })
  const signer = signerOf(rig, maker)
  const asMaker = async (url: string, body: object) =>
    await send(rig, await sign(signer, url, 'POST', JSON.stringify(body)))
  const late = new Date(rig.clock.now() + 91 * 86_400_000).toISOString()
  t.match(await asMaker('/v1/devices/pairing', { authorities: ['read'], expires: late }), { status: 400 })
  t.match(await asMaker('/v1/devices/pairing', { authorities: ['invoke'] }), { status: 403 })
  t.match(await asMaker('/v1/devices/pairing', { authorities: ['read'] }), { status: 200 })
  const { attempt, device, digits } = await beginPairing(rig)
  t.match(await asMaker('/v1/devices/pairing/confirm', { attempt, digits }),
    { status: 200, body: { by: maker.deviceId } })
  const made = signerOf(rig, await device)
  t.equal((await send(rig, await sign(made, '/who'))).status, 200)
  await ask(rig, 'DELETE', `/v1/devices/${maker.deviceId}`)
  t.match(await send(rig, await sign(made, '/who')), { status: 401, reason: 'device_ended' })
})

t.test('a token that a device has made lets nothing in that outlives the device, or the token', async (t) => {
  const tokens: TokenRecord[] = []
  const rig = await start(t, {
    plugins: [probe], fakes: [fake(TokenService, { list: () => tokens })]
  })
  const maker = await pair(rig, {
    authorities: ['operator', 'read'], viaRelay: ['read'],
    expires: new Date(rig.clock.now() + 30 * 86_400_000).toISOString()
  })
  const soon = new Date(rig.clock.now() + 3_600_000).toISOString()
  const authorities = ['operator', 'read']
  const record = {
    label: 'x', authorities, models: null, created: soon, lastUsedDay: null, revoked: false, expires: null
  }
  tokens.push({ ...record, id: 'app_1', by: maker.deviceId }, { ...record, id: 'app_2', by: 'app_1' },
    { ...record, id: 'app_3', by: 'operator', expires: soon })
  const as = async (id: string, path: string, body: object) => {
    const caller = { id, mode: 'direct', authorities: new Set(['operator', 'read']) } as const
    const { signal } = new AbortController()
    const { status, text } = await rig.service(OwnApiService).ask(
      { method: 'POST', path, body, caller, signal })
    return { status, body: JSON.parse(text) as { by: string, expires: string } }
  }
  const letIn = async (id: string) => {
    t.equal((await as(id, '/v1/devices/pairing', { authorities: ['read'] })).status, 200)
    const { attempt, device, digits } = await beginPairing(rig)
    const { body } = await as(id, '/v1/devices/pairing/confirm', { attempt, digits })
    return { ...body, signer: signerOf(rig, await device) }
  }
  const made = await letIn('app_2')
  t.match(made, { by: maker.deviceId, expires: maker.grant.expires })
  const ofToken = await letIn('app_3')
  t.match(ofToken, { by: 'app_3', expires: soon }, 'no later than the token')
  const late = { authorities: ['read'], expires: maker.grant.expires }
  t.equal((await as('app_3', '/v1/devices/pairing', late)).status, 400)
  t.equal((await send(rig, await sign(made.signer, '/who'))).status, 200)
  await ask(rig, 'DELETE', `/v1/devices/${maker.deviceId}`)
  t.match(await send(rig, await sign(made.signer, '/who')), { status: 401, reason: 'device_ended' })
  await rig.clock.advance(20_000)
  t.equal((await send(rig, await sign(ofToken.signer, '/who'))).status, 200)
  tokens[2]!.revoked = true
  await rig.clock.advance(20_000)
  t.match(await send(rig, await sign(ofToken.signer, '/who')),
    { status: 401, reason: 'device_ended', details: { why: 'revoked' } }, 'with a token that is revoked')
})

t.test('through a relay a device gives no more than it has there', async (t) => {
  const rig = await running(t)
  const maker = await pair(rig, { authorities: ['operator', 'read', 'invoke'], viaRelay: ['read'] })
  const open = async (body: object) => await send(rig,
    await sign(signerOf(rig, maker), '/v1/devices/pairing', 'POST', JSON.stringify(body)))
  for (const authority of ['operator', 'invoke']) {
    t.match(await open({ authorities: ['read', authority], viaRelay: [authority] }),
      { status: 403, reason: 'missing_grant', details: { authority } })
  }
  t.match(await open({ authorities: ['read', 'invoke'] }), { status: 200, body: { viaRelay: ['read'] } })
})

t.test('20,000 mangled headers and messages: no crash, no grant, nobody gets in', async (t) => {
  const rig = await running(t)
  const device = await pair(rig)
  const { authorization: good } = await sign(signerOf(rig, device), '/who')
  let seed = 1
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
    return seed % below
  }
  const mangled = (text: string): string => {
    const at = random(text.length)
    const odd = String.fromCharCode(33 + random(94))
    const kind = random(4)
    if (kind === 0) return text.slice(0, at)
    if (kind === 1) return text.slice(0, at) + odd + text.slice(at + 1)
    return kind === 2 ? text.slice(0, at) + odd + text.slice(at) : text.slice(0, at) + text.slice(at + 1)
  }
  const check = schemeIn(device, rig.clock)
  let through = 0
  for (let i = 0; i < 19_000; i++) {
    const text = mangled(good.slice(5))
    try { if (check(text) !== undefined && text !== good.slice(5)) through++ } catch { /* a typed refusal */ }
    readCredential(text)
  }
  t.equal(through, 0)
  await ask(rig, 'POST', '/v1/devices/pairing', {})
  const body = JSON.stringify({ key: 'B'.repeat(43), agreementKey: 'C'.repeat(43), ephemeral: 'D'.repeat(43),
    nonce: 'E'.repeat(22), name: 'x', proof: 'F'.repeat(86) })
  for (let i = 0; i < 1000; i++) {
    const url = i % 2 === 0 ? '/v1/devices/pair' : `/v1/devices/pair/${'A'.repeat(22)}`
    const payload = mangled(i % 2 === 0 ? `{"commit":"${'A'.repeat(43)}"}` : body)
    const headers = { 'content-type': 'application/json' }
    const answer = await rig.inject({ method: 'POST', url, payload, headers })
    if (answer.statusCode >= 500) t.fail(`${url} ${payload}: ${answer.body}`)
  }
  t.equal((await ask<{ devices: unknown[] }>(rig, 'GET', '/v1/devices')).devices.length, 1)
})
