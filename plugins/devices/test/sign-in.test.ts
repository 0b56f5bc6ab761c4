// `svc open`: a code signs in one browser, once, within a minute, with at most what its opener may do.
import t from 'tap'
import { TokenService, type TokenRecord } from '../../../kernel/index.js'
import { fake } from '../../../kernel/testing/index.js'
import { pairDevice, type DeviceFile } from '../signing/device.js'
import { ask, signerOf, start, URL_HERE } from './devices-kit.js'
import { probe, running, send, sign } from './probe-kit.js'
import type { Rig } from '../../../kernel/testing/index.js'

const SIGN_IN = '/v1/devices/sign-in'

const codeOf = async (rig: Rig, body: object = {}): Promise<string> =>
  (await ask<{ code: string }>(rig, 'POST', SIGN_IN, body)).code

/** Signs a browser at another address in, as the page does. */
const signIn = async (rig: Rig, code: string, from = '192.0.2.7'): Promise<DeviceFile> => await pairDevice({
  url: URL_HERE, name: 'browser', code, compare: async () => true,
  ask: async <T>(path: string, body?: object) =>
    await ask<T>(rig, body === undefined ? 'GET' : 'POST', path, body, from),
  pause: async () => { await new Promise((resolve) => setImmediate(resolve)) }
})

t.test('a code pairs one browser with what its opener may do, and no second one', async (t) => {
  const rig = await running(t)
  const code = await codeOf(rig)
  const device = await signIn(rig, code)
  const who = await send(rig, await sign(signerOf(rig, device), '/who'))
  t.match(who, { status: 200, body: { mode: 'paired' } })
  t.ok(device.grant.authorities.includes('operator'))
  t.match(device.grant, { by: 'local', viaRelay: ['read', 'invoke'] })
  await t.rejects(signIn(rig, code), { reason: 'pairing_closed' } as never, 'spent')
  await t.rejects(ask(rig, 'POST', `${SIGN_IN}/token`, { code }), { reason: 'pairing_closed' } as never)
  const [one, two] = await Promise.all([codeOf(rig, { authorities: ['read'] }), codeOf(rig)])
  const both = await Promise.all([signIn(rig, one), signIn(rig, two)])
  t.same(both[0].grant.authorities, ['read'], 'two at once, each with its own')
  t.ok(both[1].grant.authorities.length > 1)
  t.equal((await ask<{ open: boolean }>(rig, 'GET', '/v1/devices/pairing')).open, false, 'no window is open')
})

t.test('refused: a made-up or old code, more than the opener has, a withdrawn attempt', async (t) => {
  const rig = await running(t)
  await t.rejects(signIn(rig, 'A'.repeat(22)), { reason: 'pairing_closed' } as never)
  const old = await codeOf(rig)
  await rig.clock.advance(60_000)
  await t.rejects(signIn(rig, old), { reason: 'pairing_closed' } as never)
  await t.rejects(codeOf(rig, { authorities: ['all'] }), { reason: 'invalid_request' } as never)
  await t.rejects(codeOf(rig, { authorities: [] }), { reason: 'invalid_request' } as never)
  const device = await signIn(rig, await codeOf(rig, { authorities: ['operator'] }))
  const more = await sign(signerOf(rig, device), SIGN_IN, 'POST', '{"authorities":["read"]}')
  t.match(await send(rig, more), { status: 403, reason: 'missing_grant' })
  const many = []
  for (let i = 0; i < 17; i++) many.push(await codeOf(rig))
  await t.rejects(signIn(rig, many[0]!), { reason: 'pairing_closed' } as never, 'the oldest of too many')
  await signIn(rig, many[1]!)
})

t.test('without a key a browser gets a token of half a day; a code ends with its opener', async (t) => {
  const made: unknown[] = []
  let stands = true
  const tokens = fake(TokenService, {
    list: () => [], stands: () => stands,
    create: async (options) => {
      made.push(options)
      return { token: 'secret', record: { expires: options.expiresAt } as TokenRecord }
    }
  })
  const rig = await start(t, { fakes: [tokens], plugins: [probe] })
  const expires = new Date(rig.clock.now() + 43_200_000).toISOString()
  const code = await codeOf(rig, { authorities: ['read'] })
  t.same(await ask(rig, 'POST', `${SIGN_IN}/token`, { code }, '192.0.2.7'), { token: 'secret', expires })
  t.match(made, [{ label: 'page at 192.0.2.7', authorities: ['read'], expiresAt: expires,
    by: { id: 'local' } }])
  const late = await codeOf(rig)
  stands = false
  await t.rejects(ask(rig, 'POST', `${SIGN_IN}/token`, { code: late }), { reason: 'pairing_closed' } as never)
})
