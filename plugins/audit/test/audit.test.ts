import t from 'tap'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { AuditService, ClusterService, definePlugin, kernelError } from '../../../kernel/index.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { detailOf, resultOf } from '../cli/audit.js'
import audit from '../index.js'
import { edit, filesIn } from './kit.js'
import type { NodeView } from '../../../kernel/index.js'
import type { Rig, StartOptions } from '../../../kernel/testing/index.js'
import type { Entry } from '../chain/entries.js'

const changing = definePlugin({
  name: 'changing', version: '1.0.0', kernel: '^1.0.0', summary: 'Changes something.',
  routes: {
    set: {
      method: 'PUT', url: '/v1/thing', summary: 'Sets it.', authority: 'cluster:write',
      body: {
        type: 'object', additionalProperties: false, required: ['value'],
        properties: { value: { type: 'string' }, password: { type: 'string', writeOnly: true } }
      }
    },
    free: {
      method: 'DELETE', url: '/v1/thing', summary: 'Frees it.', authority: 'cluster:write',
      audit: 'best-effort'
    }
  }
}, () => ({
  routes: {
    set: ({ body: { value } }) => {
      if (value === 'wrong') throw kernelError('config_changed')
      made++
      return { value }
    },
    free: () => {
      made++
      return {}
    }
  }
}))

let made = 0

async function start (t: Parameters<typeof startPlugin>[0], more: StartOptions = {}): Promise<Rig> {
  made = 0
  return await startPlugin(t, changing, { plugins: [audit], ...more })
}

const set = (value: string) => ({ method: 'PUT', url: '/v1/thing', payload: { value, password: 'hunter2' } })

const entries = async (rig: Rig, query = ''): Promise<Entry[]> =>
  ((await rig.inject({ url: `/v1/audit${query}` })).json() as { entries: Entry[] }).entries

t.test('changes are recorded, shown, verified and exported', async (t) => {
  const rig = await start(t)
  t.equal((await rig.inject(set('new'))).statusCode, 200)
  t.equal((await rig.inject(set('wrong'))).statusCode, 409)
  const shown = await entries(rig)
  t.match(shown, [
    { seq: 1, who: 'local', how: 'direct', what: 'PUT /v1/thing', status: 200, reason: null,
      detail: { body: { value: 'new', password: '********' } } },
    { seq: 3, status: 409, reason: 'config_changed' }
  ])
  t.same(await entries(rig, '?who=nobody'), [])
  t.same((await entries(rig, '?limit=1')).map(({ seq }) => seq), [3])
  t.same(rig.events.map(({ kind, payload }) => [kind, payload['seq']]),
    [1, 2, 3, 4].map((seq) => ['AuditRecorded', seq]))
  t.match((await rig.inject({ url: '/v1/audit/verify' })).json(),
    { ok: true, nodes: [{ ok: true, records: 4, first: 1, last: { seq: 4 }, fault: null, error: null }] })
  const exported = (await rig.inject({ url: '/v1/audit/export' })).body
  t.same(exported.trim().split('\n').map((line) => JSON.parse(line) as unknown),
    rig.events.map(({ payload }) => payload))
  t.notMatch(exported, 'hunter2')
  const folder = join(rig.home, 'audit')
  edit(join(folder, filesIn(folder)[0]!), (text) => text.replace('"value":"new"', '"value":"old"'))
  t.match((await rig.inject({ url: '/v1/audit/verify' })).json(), {
    ok: false,
    nodes: [{ ok: false, fault: { seq: 1, kind: 'altered', message: /^Record 1 does not match its hash/ } }]
  })
  t.equal((await rig.inject({ url: '/v1/audit?since=soon' })).statusCode, 400)
  t.equal((await rig.inject({ url: '/v1/audit?node=nowhere' })).statusCode, 404)
})

t.test('what cannot be recorded is not done, and said so', async (t) => {
  const rig = await start(t)
  const blocked = join(rig.home, 'audit', '000000000001.jsonl')
  mkdirSync(blocked)
  const answer = await rig.inject(set('new'))
  t.equal(answer.statusCode, 507)
  t.match(answer.json().error, { reason: 'audit_unavailable', retryable: true,
    message: /in the folder audit .* refused: EEXIST/ })
  t.notMatch(answer.body, rig.home)
  t.equal(made, 0)
  t.match(rig.conflicts(), [{ code: 'audit_unavailable', severity: 'error' }])
  t.equal((await rig.inject({ method: 'DELETE', url: '/v1/thing' })).statusCode, 200)
  t.equal(made, 1, 'what frees space is done all the same')
  rmSync(blocked, { recursive: true })
  t.equal((await rig.inject(set('new'))).statusCode, 200)
  t.equal(made, 2)
  t.same(rig.conflicts(), [])
  t.match(await entries(rig), [{ what: 'gap', detail: { unrecorded: 1 } }, { what: 'PUT /v1/thing' }])
})

t.test('refused ones are recorded, as often as is good', async (t) => {
  const rig = await start(t, { allow: ['read', 'operator'] })
  for (let i = 0; i < 30; i++) t.equal((await rig.inject(set('new'))).statusCode, 401)
  await rig.inject({ url: '/v1/audit' })
  const { audit: kept } = { audit: rig.service(AuditService) }
  const end = await kept.begin({ who: 'x', how: 'direct', what: 'later', detail: {} })
  await end({ status: 200, reason: null, detail: {} })
  const shown = await entries(rig)
  t.equal(shown.length, 11, 'ten of an hour, and the one change')
  t.match(shown[0], { who: 'local', status: 401, reason: 'unauthenticated', detail: { from: '127.0.0.1' } })
  t.equal(made, 0)
})

t.test('only who may sees it', async (t) => {
  const rig = await start(t, { allow: ['read', 'invoke', 'cluster:write', 'approve'] })
  for (const url of ['/v1/audit', '/v1/audit/verify', '/v1/audit/export']) {
    t.equal((await rig.inject({ url })).statusCode, 401, url)
  }
})

t.test('a change in a line', async (t) => {
  t.equal(resultOf({ status: 200, reason: null }), 'done')
  t.equal(resultOf({ status: 409, reason: 'config_changed' }), '409 config_changed')
  t.equal(resultOf({ status: null, reason: null }), 'unknown')
  const asked = { request: 'r', params: { id: 'x' }, body: { a: [1], b: 'c' } }
  const detail = { ...asked, from: '::1', noted: { id: 2 } }
  t.equal(detailOf({ detail }), 'id=x a=[1] b=c id=2 from=::1')
})

const view = (installId: string, name: string, self: boolean): NodeView =>
  ({ nodeId: name, installId, name, self, live: self, master: self, apiUrl: null })

t.test('a node that does not answer is named', async (t) => {
  const cluster = fake(ClusterService, {
    self: { installId: 'self', nodeId: 'one' },
    nodes: () => [view('self', 'one', true), view('other', 'two', false)]
  })
  const rig = await start(t, { fakes: [cluster] })
  t.match((await rig.inject({ url: '/v1/audit/verify' })).json(), {
    ok: true, nodes: [{ name: 'one', ok: true }, { name: 'two', ok: null, error: 'gives no sign of life' }]
  })
  t.match((await rig.inject({ url: '/v1/audit' })).json().failed,
    [{ node: 'other', name: 'two', message: 'gives no sign of life' }])
})
