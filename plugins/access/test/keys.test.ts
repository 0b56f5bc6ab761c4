import t from 'tap'
import { fake } from '../../../kernel/testing/index.js'
import { OwnApiService, SessionService, type Caller, type Section } from '../../../kernel/index.js'
import { keyAdder } from '../keys/commands.js'
import { MAX_KEYS, type Key } from '../keys/declarations.js'
import { OPERATOR, startAccess, type AccessRig } from './access-kit.js'

interface Made { token: string, record: { id: string, expires: string | null, models: string[] | null } }

const DAY_MS = 86_400_000

async function as (
  rig: AccessRig, caller: Caller, method: 'POST' | 'DELETE', path: string, body?: object
) {
  const { signal } = new AbortController()
  const answer = await rig.service(OwnApiService).ask(
    { method, path, caller, signal, ...body === undefined ? {} : { body } })
  const json = JSON.parse(answer.text) as Made & { error?: { reason: string, message: string }, ends: string }
  return { status: answer.status, reason: json.error?.reason, message: json.error?.message, ...json }
}

const make = async (rig: AccessRig, body: object = {}, by = OPERATOR) =>
  await as(rig, by, 'POST', '/v1/tokens', { label: 'x', authorities: ['read', 'invoke'], ...body })
const rotate = async (rig: AccessRig, id: string, body: object = {}, by = OPERATOR) =>
  await as(rig, by, 'POST', `/v1/tokens/${id}/rotate`, body)
const callerOf = (rig: AccessRig, { token }: Made): Caller => rig.caller(token) as Caller

t.test('a key is accepted until it ends, and only its hash is kept', async (t) => {
  const rig = await startAccess(t)
  const made = await make(rig, { expires: new Date(rig.clock.now() + DAY_MS).toISOString() })
  const record = { id: /^key_[0-9a-f]{12}$/, node: null, by: 'operator', models: null }
  t.match(made, { status: 200, record })
  t.match(rig.caller(made.token), { id: made.record.id, mode: 'direct', models: undefined })
  const list = await rig.inject({ url: '/v1/tokens' })
  t.match(list.json(), { tokens: [{ id: made.record.id, lastUsedDay: '2026-01-01' }] })
  t.notMatch(JSON.stringify([rig.events, rig.logged, list.body]), made.token)
  const near = made.token.replace(/.{6}$/, '000000')
  t.equal(rig.caller(near), undefined)
  await rig.clock.advance(DAY_MS)
  t.equal(rig.caller(made.token), undefined)
  t.notOk(rig.tokens.stands(made.record.id))
})

t.test('a revoked key ends with all that was made with it', async (t) => {
  const rig = await startAccess(t)
  const first = await make(rig, { authorities: ['operator', 'read'] })
  const second = await make(rig, { authorities: ['operator', 'read'] }, callerOf(rig, first))
  const third = await make(rig, { authorities: ['read'], local: true }, callerOf(rig, second))
  t.ok(rig.tokens.check(third.token))
  t.equal((await as(rig, OPERATOR, 'DELETE', `/v1/tokens/${first.record.id}`)).status, 200)
  t.same([first, second].map(({ token }) => rig.caller(token)), [undefined, undefined])
  t.equal(rig.tokens.check(third.token), undefined)
  t.same(rig.tokens.list().map(({ revoked }) => revoked), [true, true, true])
  const local = await make(rig, { authorities: ['operator', 'read'], local: true })
  const ofLocal = await make(rig, { authorities: ['read'] }, rig.tokens.check(local.token) as Caller)
  t.ok(rig.caller(ofLocal.token))
  await as(rig, OPERATOR, 'DELETE', `/v1/tokens/${local.record.id}`)
  t.equal(rig.caller(ofLocal.token), undefined)
})

t.test('nobody gives more than he has', async (t) => {
  const rig = await startAccess(t)
  const soon = new Date(rig.clock.now() + DAY_MS).toISOString()
  const late = new Date(rig.clock.now() + 2 * DAY_MS).toISOString()
  const by = callerOf(rig, await make(rig, { authorities: ['operator', 'read'], expires: soon }))
  const wide = await make(rig, { authorities: ['operator', 'cluster:write'] })
  const limited: Caller = { ...OPERATOR, models: ['a', 'b'] }
  for (const [title, answer, expected] of [
    ['an authority', await make(rig, { authorities: ['read', 'invoke'] }, by), 'missing_grant'],
    ['a later end', await make(rig, { authorities: ['read'], expires: late }, by), 'invalid_request'],
    ['an authority, by rotating', await rotate(rig, wide.record.id, {}, by), 'missing_grant'],
    ['a model', await make(rig, { models: ['a', 'c'] }, limited), 'model_not_allowed'],
    ['management with models', await make(rig, { authorities: ['operator'], models: ['a'] }),
      'invalid_request'],
    ['its own successor', await rotate(rig, by.id, {}, by), 'invalid_request']
  ] as const) t.equal(answer.reason, expected, title)
  t.equal((await make(rig, { authorities: ['read'] }, by)).record.expires, soon)
  t.same((await make(rig, {}, limited)).record.models, ['a', 'b'], 'all of its own when it names none')
  const narrow = await make(rig, { models: ['b'] }, limited)
  t.same(callerOf(rig, narrow).models, ['b'])
  t.match((await rotate(rig, narrow.record.id, {}, { ...limited, models: ['a'] })), { status: 403 })
})

t.test('a rotated key stays valid for the overlap, its successor as long as it was to be', async (t) => {
  const rig = await startAccess(t)
  const expires = new Date(rig.clock.now() + 10 * DAY_MS).toISOString()
  const old = await make(rig, { models: ['a'], expires })
  await rig.clock.advance(DAY_MS)
  const next = await rotate(rig, old.record.id)
  t.match(next, { replaces: old.record.id, record: { models: ['a'], replaces: old.record.id },
    ends: '2026-01-03T00:00:00.000Z' })
  t.equal(next.record.expires, '2026-01-12T00:00:00.000Z')
  t.same([old, next].map(({ token }) => callerOf(rig, { ...old, token }).id), [old.record.id, next.record.id])
  t.equal((await rotate(rig, old.record.id)).reason, 'token_replaced')
  await rig.clock.advance(DAY_MS)
  t.same([old, next].map(({ token }) => typeof rig.caller(token)), ['undefined', 'object'])
  t.equal((await rotate(rig, old.record.id)).reason, 'token_not_found', 'it has ended')
  const last = await rotate(rig, next.record.id, { overlap_seconds: 0 })
  t.equal(rig.caller(next.token), undefined)
  t.ok(rig.caller(last.token))
  t.same(rig.events.map(({ kind }) => kind), ['TokenCreated', 'TokenRotated', 'TokenRotated'])
})

t.test('a node without contact for a minute refuses keys, and says why', async (t) => {
  const session =
    { sessionId: 's', isMaster: true, masterNodeId: 'm' as string | null, onChange: () => () => {} }
  const rig = await startAccess(t, { fakes: [fake(SessionService, session)] })
  const { token, record } = await make(rig)
  session.masterNodeId = null
  await rig.clock.advance(59_000)
  t.type(rig.caller(token), 'object')
  t.ok(rig.tokens.stands(record.id))
  await rig.clock.advance(6_000)
  t.equal(rig.caller(token), 'keys_unconfirmed')
  t.notOk(rig.tokens.stands(record.id), 'its open streams end')
  t.equal(rig.caller('svc_app_wrong'), undefined, 'only who has a key learns of it')
  session.masterNodeId = 'm'
  t.type(rig.caller(token), 'object')
})

/** The master's commands over a plain map. */
function master () {
  const keys = new Map<string, Key>()
  const section = {
    get: (id: string) => keys.get(id), put: (id: string, key: Key) => { keys.set(id, key) },
    remove: (id: string) => { keys.delete(id) },
    entries: () => [...keys].map(([key, value]) => ({ nodeId: '', key, value }))
  } as unknown as Section<Key>
  const error = (reason: string, message: string) => Object.assign(new Error(message), { reason }) as never
  const revoked = new Map<string, string>()
  const clock = { now: () => Date.parse('2026-01-01') }
  return { addKey: keyAdder({ section, revocations: revoked, clock, error }), keys, revoked }
}
const key: Key = { label: 'x', authorities: ['read'], models: null, hash: 'h'.repeat(43), expires: null,
  created: '2026-01-01T00:00:00.000Z', node: 'n', makers: ['operator'], replaces: null }
const everything = { installId: 'n', vouched: (given: readonly string[]): string[] => [...given] }

t.test('the master keeps its limits and forgets ended keys first', async (t) => {
  const { addKey, keys, revoked } = master()
  const add = (id: string, more: Partial<Key> = {}) => () =>
    addKey({ id, key: { ...key, ...more }, until: null }, everything)
  for (let i = 0; i < MAX_KEYS; i++) add(`key_${i}`)()
  t.throws(add('key_more'), { reason: 'too_many_keys', message: /200 keys/ })
  revoked.set('key_7', '')
  add('key_more')()
  t.notOk(keys.has('key_7'))
  t.throws(add('key_more'), { reason: 'invalid_request' } as never, 'an id is never given twice')
  keys.delete('key_more')
  revoked.set('key_more', '')
  t.throws(add('key_more'), { reason: 'invalid_request' } as never, 'and no revocation is undone')
  t.throws(add('key_b', { models: Array.from({ length: 30 }, (_, i) => `${i}`.repeat(50)) }),
    { reason: 'invalid_request', message: /at most 1024 bytes/ })
})

t.test('a node creates no key with what it cannot vouch for', async (t) => {
  const { addKey, keys } = master()
  const args = { id: 'key_a', key: { ...key, authorities: ['read', 'operator'] }, until: null }
  t.throws(() => addKey(args, { installId: 'n', vouched: () => ['read'] }),
    { reason: 'missing_grant', details: { authority: 'operator' } } as never)
  t.equal(keys.size, 0)
})

t.test('without room for a revocation, what the token made is removed', async (t) => {
  const rig = await startAccess(t)
  const local = { local: true, authorities: ['operator', 'read'] }
  const end = async (made: Made) => await as(rig, OPERATOR, 'DELETE', `/v1/tokens/${made.record.id}`)
  for (let n = 0; n < 500; n++) t.equal((await end(await make(rig, local))).status, 200)
  const maker = await make(rig, local)
  const made = await make(rig, { authorities: ['read'] }, rig.tokens.check(maker.token) as Caller)
  const other = await make(rig)
  t.equal((await end(maker)).status, 200)
  const left = (await rig.inject({ url: '/v1/tokens' })).json() as { tokens: { id: string }[] }
  const ids = left.tokens.map(({ id }) => id)
  t.same([made, other].map(({ record }) => ids.includes(record.id)), [false, true])
})

t.test('a line of tokens that created each other has an end', async (t) => {
  const rig = await startAccess(t)
  let made = await make(rig, { authorities: ['operator'] })
  for (let n = 1; n < 32; n++) made = await make(rig, { authorities: ['operator'] }, callerOf(rig, made))
  t.match(await make(rig, { authorities: ['operator'] }, callerOf(rig, made)),
    { status: 400, message: /32 tokens have created each other/ })
})
