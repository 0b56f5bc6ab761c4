import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import { prepareHome } from '../../../kernel/boot/home.js'
import { openTokens, type TokenStore } from '../../../kernel/http/tokens.js'
import { fake, startPlugin, type Rig } from '../../../kernel/testing/index.js'
import { TokenService, type Tokens } from '../../../kernel/index.js'
import { expiryOf } from '../../../kernel/cli/index.js'
import { stateOf } from '../cli/ls.js'
import access from '../index.js'
import { known, startAccess } from './access-kit.js'

const start = async (t: Parameters<typeof startPlugin>[0], allow?: string[]): Promise<Rig> =>
  await startAccess(t, allow === undefined ? {} : { allow })

const body = { label: 'phone', authorities: ['read', 'invoke'] }

t.test('a token is made, shown once, listed and revoked', async (t) => {
  const rig = await start(t)
  const payload = { ...body, expires: '2027-01-31T01:00:00+01:00' }
  const made = await rig.inject({ method: 'POST', url: '/v1/tokens', payload })
  t.equal(made.statusCode, 200, made.body)
  const { token, record: { id } } = made.json() as { token: string, record: { id: string } }
  t.match(token, /^svc_app_/)
  t.equal(made.json().record.expires, '2027-01-31T00:00:00.000Z')
  const list = await rig.inject({ url: '/v1/tokens' })
  t.match(list.json(), { tokens: [{ id, label: 'phone', revoked: false, by: 'local' }] })
  t.notMatch(list.body, token)
  const gone = await rig.inject({ method: 'DELETE', url: `/v1/tokens/${id}` })
  t.same(gone.json(), { id, revoked: true, admitted: [] })
  t.equal((await rig.inject({ url: '/v1/tokens' })).json().tokens[0].revoked, true)
  t.same(rig.events.map((e) => e.kind), ['TokenCreated', 'TokenRevoked'])
  t.match(rig.events[0]?.payload, { id, label: 'phone', authorities: ['read', 'invoke'] })
  t.notMatch(JSON.stringify([rig.events, rig.logged]), token, 'the secret is in no event and no log line')
})

t.test('what is wrong is refused by name', async (t) => {
  const rig = await start(t)
  const check = async (payload: object, message: RegExp): Promise<void> => {
    const answer = await rig.inject({ method: 'POST', url: '/v1/tokens', payload })
    t.equal(answer.statusCode, 400, JSON.stringify(payload))
    t.equal(answer.json().error.reason, 'invalid_request')
    t.match(answer.body, message)
  }
  await check({}, /label/)
  await check({ label: 'x' }, /authorities/)
  await check({ ...body, label: '' }, /label/)
  await check({ ...body, label: 'a\nb' }, /label/)
  await check({ ...body, label: 'x'.repeat(101) }, /label/)
  await check({ ...body, authorities: [] }, /authorities/)
  await check({ ...body, authorities: ['read', 'read'] }, /authorities/)
  await check({ ...body, authorities: ['fly'] }, /fly/)
  await check({ ...body, expires: 'soon' }, /expires/)
  await check({ ...body, expires: '2020-01-01T00:00:00Z' }, /in the past/)
  await check({ ...body, more: 1 }, /more/)
  await check({ ...body, models: [] }, /models/)
  const unknown = await rig.inject({ method: 'DELETE', url: '/v1/tokens/app_9' })
  t.equal(unknown.statusCode, 404)
  t.match(unknown.json().error, { reason: 'token_not_found', message: /app_9/ })
  t.same(rig.events, [], 'nothing happened')
})

t.test('only the operator may', async (t) => {
  const rig = await start(t, ['read', 'invoke', 'cluster:write'])
  const all = [['GET', '/v1/tokens'], ['POST', '/v1/tokens'], ['DELETE', '/v1/tokens/app_0']] as const
  for (const [method, url] of all) {
    const answer = await rig.inject({ method, url, ...(method === 'POST' ? { payload: body } : {}) })
    t.equal(answer.statusCode, 401, `${method} ${url}`)
  }
})

t.test('nobody gives what they have not', async (t) => {
  const rig = await start(t, ['read', 'operator'])
  const make = async (authorities: string[]): Promise<number> => (await rig.inject({
    method: 'POST', url: '/v1/tokens', payload: { ...body, authorities }
  })).statusCode
  t.equal(await make(['read', 'operator']), 200)
  // The rig's caller has no token, so the error is 401, not 403.
  for (const more of ['invoke', 'plugin:manage']) t.equal(await make(['read', more]), 401, more)
  t.equal((await rig.inject({ url: '/v1/tokens' })).json().tokens.length, 1)
})

t.test('--expires takes a span or a date to come', async (t) => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  const check = (text: string, expected: string | null): void => {
    t.equal(expiryOf(text, now), expected, text)
  }
  check('12h', '2026-01-01T12:00:00.000Z')
  check('90d', '2026-04-01T00:00:00.000Z')
  check('2w', '2026-01-15T00:00:00.000Z')
  check('2027-01-31', '2027-01-31T00:00:00.000Z')
  check('2026-01-01T00:00:01Z', '2026-01-01T00:00:01.000Z')
  check('0d', null)
  check('2025-12-31', null)
  check('90', null)
  check('-1d', null)
  check('2027-13-01', null)
  check('tomorrow', null)
})

t.test('a token is active, expired or revoked', async (t) => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  t.equal(stateOf({ revoked: false, expires: null }, now), 'active')
  t.equal(stateOf({ revoked: false, expires: '2026-01-01T00:00:00.000Z' }, now), 'expired')
  t.equal(stateOf({ revoked: true, expires: null }, now), 'revoked')
})

t.test('an old backup revives no revoked token', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'svc-access-'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true }) })
  prepareHome(home)
  const open = (): TokenStore =>
    openTokens({ home, clock: systemClock, known: () => known, operator: 'none' })
  let store = open()
  const tokens: Tokens = {
    issue: (options) => store.issue(options), makers: (id) => store.makers(id),
    create: async (options) => await store.create(options), list: () => store.list(),
    stands: (id) => store.stands(id),
    revoke: async (id) => await store.revoke(id), revoked: () => store.revoked()
  }
  const rig = await startPlugin(t, access, { fakes: [fake(TokenService, tokens)] })
  const make = async (): Promise<{ token: string, record: { id: string } }> =>
    (await rig.inject({ method: 'POST', url: '/v1/tokens', payload: { ...body, local: true } })).json()
  const revoke = async (id: string): Promise<void> => {
    t.equal((await rig.inject({ method: 'DELETE', url: `/v1/tokens/${id}` })).statusCode, 200)
  }
  const [old, second, kept] = [await make(), await make(), await make()]
  const [file, backup] = ['state/tokens.json', 'backup'].map((name) => join(home, name)) as [string, string]
  copyFileSync(file, backup)
  await revoke(old.record.id)
  copyFileSync(backup, file)
  store = open()
  t.ok(store.check(old.token), 'the backup knows nothing of it')
  // A change in the document triggers the same synchronization as a node's first connection.
  await revoke(second.record.id)
  for (let i = 0; i < 1000 && store.check(old.token); i++) await new Promise(setImmediate)
  t.equal(store.check(old.token), undefined)
  t.equal(open().check(old.token), undefined, 'also after another start')
  t.ok(open().check(kept.token))
})
