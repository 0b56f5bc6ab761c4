import t from 'tap'
import { setMaxListeners } from 'node:events'
import { definePlugin, type Caller } from '../../../kernel/index.js'
import { SpendingService } from '../../capabilities/service.js'
import { schemaChecker } from '../../../kernel/api/validate.js'
import { startPlugin, type Rig, type StartOptions } from '../../../kernel/testing/index.js'
import audit from '../../audit/index.js'
import { keptSchema } from '../budgets.js'
import approvals from '../index.js'
import { ASKED_A_MINUTE, WAITING_MOST, MAX_PENDING_PER_CALLER, type Approval } from '../waiting.js'

const paint = definePlugin({
  name: 'paint', version: '1.0.0', kernel: '^1.0.0', summary: 'Paints for money.',
  capabilities: {
    paint: {
      id: 'paint', version: '1.0.0', title: 'Paint', description: 'Paints.', io_mode: 'unary',
      input_schema: {
        type: 'object', additionalProperties: false, required: ['text'],
        properties: { text: { type: 'string' } }
      },
      output_schema: { type: 'object' },
      annotations: { cost: '0.01 EUR + 0.002 EUR * text' }
    }
  }
}, () => ({ invoke: { paint: async ({ text }) => { painted.push(text); return {} } } }))

let painted: string[] = []

async function start (t: Parameters<typeof startPlugin>[0], more: StartOptions = {}): Promise<Rig> {
  painted = []
  return await startPlugin(t, approvals, { plugins: [paint, audit], ...more })
}

type Response = Awaited<ReturnType<Rig['inject']>>

async function call (rig: Rig, text: string): Promise<Response> {
  const { revisions } = (await rig.inject({ url: '/v1/capabilities' })).json() as
    { revisions: Record<string, string> }
  return await rig.inject({
    method: 'POST', url: '/v1/capabilities/call',
    payload: {
      capability_id: 'paint', version: '1.0.0', descriptor_revision: revisions['paint@1.0.0'],
      payload: { text }
    }
  })
}

const list = async (rig: Rig): Promise<Approval[]> =>
  ((await rig.inject({ url: '/v1/approvals' })).json() as { approvals: Approval[] }).approvals

/** Waits until `count` calls are waiting for an approval. */
async function waiting (rig: Rig, count = 1): Promise<Approval[]> {
  for (;;) {
    const found = await list(rig)
    if (found.length === count) return found
    await new Promise((resolve) => { setImmediate(resolve) })
  }
}

const decide = async (rig: Rig, id: string, payload: object): Promise<Response> =>
  await rig.inject({ method: 'POST', url: `/v1/approvals/${id}`, payload })

t.test('a call that costs something waits until it is approved or denied', async (t) => {
  const rig = await start(t)
  const first = call(rig, 'cat')
  const [one] = await waiting(rig)
  t.match(one, {
    id: /^apr_[0-9a-f]{12}$/, capability: 'paint@1.0.0', by: 'local', cost: '0.016 EUR', command_id: String
  })
  t.equal(Date.parse(one!.until) - Date.parse(one!.asked), 120_000)
  t.same(painted, [])
  const approved = await decide(rig, one!.id, { decision: 'approve' })
  t.match(approved.json(), { decision: 'approve', approval: { id: one!.id, by: 'local' } })
  t.equal((await first).statusCode, 200)
  t.same(painted, ['cat'])
  const second = call(rig, 'dog')
  const [two] = await waiting(rig)
  t.equal((await decide(rig, two!.id, { decision: 'deny', reason: 'too dear' })).statusCode, 200)
  const denied = await second
  t.equal(denied.statusCode, 403)
  t.match(denied.json().error, { reason: 'approval_denied', message: /0.016 EUR .* denied: too dear/ })
  t.same(painted, ['cat'])
  t.equal((await decide(rig, two!.id, { decision: 'approve' })).json().error.reason, 'approval_not_found')
  t.same(rig.events.filter(({ kind }) => /^Approval/.test(kind)).map(({ kind }) => kind),
    ['ApprovalAsked', 'ApprovalDecided', 'ApprovalAsked', 'ApprovalDecided'])
  const { entries } = (await rig.inject({ url: '/v1/audit' })).json() as { entries: object[] }
  t.match(entries, [
    { what: 'POST /v1/approvals/:id', who: 'local', status: 200, detail: {
      body: { decision: 'approve' }, noted: { of: 'local', capability: 'paint@1.0.0', cost: '0.016 EUR' }
    } },
    { detail: { body: { decision: 'deny', reason: 'too dear' } } },
    { status: 404, reason: 'approval_not_found' }
  ])
})

t.test('nobody decides in time', async (t) => {
  const rig = await start(t, { config: { wait_seconds: 5 } })
  const answer = call(rig, 'cat')
  await waiting(rig)
  await rig.clock.advance(5000)
  t.match((await answer).json().error, {
    reason: 'approval_timeout', code: 504, retryable: true, message: /within 5 s/,
    details: { cost: '0.016 EUR' }
  })
  t.same([painted, await list(rig)], [[], []])
  t.match(rig.events.map(({ kind }) => kind), ['ApprovalAsked', 'ApprovalExpired'])
})

t.test('a client that goes away waits no more', async (t) => {
  const rig = await start(t)
  const leave = new AbortController()
  const answer = rig.service(SpendingService).allow(expense('a', leave.signal))
  await waiting(rig)
  leave.abort(new Error('gone'))
  await t.rejects(answer, /gone/)
  t.same(await list(rig), [])
})

t.test('a call that waits when the plugin is switched off is refused, and not made', async (t) => {
  const rig = await start(t)
  const answer = rig.service(SpendingService).allow(expense('a'))
  answer.catch(() => {})
  await waiting(rig)
  await rig.stop()
  await t.rejects(answer, { reason: 'plugin_disabled', message: /EUR for x@1.0.0 was waiting/ } as never)
  t.same(painted, [])
})

t.test('of two who decide at once one does, and the other is told that it is over', async (t) => {
  const rig = await start(t)
  const answer = call(rig, 'cat')
  const [one] = await waiting(rig)
  const both = await Promise.all([
    decide(rig, one!.id, { decision: 'approve' }), decide(rig, one!.id, { decision: 'deny' })
  ])
  t.same(both.map(({ statusCode }) => statusCode).sort(), [200, 404])
  const approved = both[0]!.statusCode === 200
  t.equal((await answer).statusCode, approved ? 200 : 403)
  t.same(painted, approved ? ['cat'] : [])
  for (const id of ['apr_1', 'apr_00000000000g', '__proto__', '%00', 'apr_000000000000%0a']) {
    t.equal((await decide(rig, id, { decision: 'approve' })).statusCode, 400, id)
  }
  const odd = [{}, { decision: 'yes' }, { decision: 'approve', by: 'me' }, { decision: ['approve'] }, []]
  for (const body of odd) t.equal((await decide(rig, one!.id, body)).statusCode, 400, JSON.stringify(body))
})

const expense = (id: string, signal = new AbortController().signal) => ({
  capability: 'x@1.0.0', commandId: 'c', amount: { unit: 'EUR', nano: 1 }, signal,
  caller: { id, mode: 'direct', authorities: new Set() } satisfies Caller
})

t.test('what waits is bounded', async (t) => {
  const rig = await start(t)
  const spending = rig.service(SpendingService)
  const over = new AbortController()
  // In production each call has its own signal, so the listener limit is not a problem there.
  setMaxListeners(0, over.signal)
  const ended: Promise<unknown>[] = []
  const ask = (id: string): Promise<unknown> => {
    const one = spending.allow(expense(id, over.signal)).catch((error: unknown) => error)
    ended.push(one)
    return one
  }
  for (let i = 0; i < WAITING_MOST; i++) void ask(`caller${Math.floor(i / MAX_PENDING_PER_CALLER)}`)
  t.equal((await list(rig)).length, WAITING_MOST)
  t.match(await ask('caller0'), { reason: 'overloaded' })
  t.match(await ask('another'), { reason: 'overloaded' }, 'and in all')
  over.abort(new Error('gone'))
  await Promise.all(ended)
  for (let i = 0; i < ASKED_A_MINUTE; i++) {
    const one = new AbortController()
    const asking = spending.allow(expense('often', one.signal)).catch(() => {})
    one.abort(new Error('gone'))
    await asking
  }
  t.match(await spending.allow(expense('often')).catch((error: unknown) => error),
    { reason: 'overloaded', message: /in the last minute/ })
  await rig.clock.advance(61_000)
  const later = new AbortController()
  const asking = spending.allow(expense('often', later.signal)).catch((error: unknown) => error)
  t.equal((await list(rig)).length, 1)
  later.abort(new Error('gone'))
  t.match(await asking, /gone/)
})

t.test('a budget is spent without asking', async (t) => {
  const rig = await start(t)
  const set = async (perDay: string): Promise<Response> => await rig.inject({
    method: 'PUT', url: '/v1/approvals/budgets/local', payload: { per_day: perDay }
  })
  t.match((await set('0.04 EUR')).json(), { caller: 'local', per_day: '0.04 EUR', spent: '0 EUR' })
  for (const text of ['cat', 'dog']) t.equal((await call(rig, text)).statusCode, 200)
  const third = call(rig, 'cow')
  const [one] = await waiting(rig)
  await decide(rig, one!.id, { decision: 'deny' })
  t.equal((await third).statusCode, 403)
  t.match((await rig.inject({ url: '/v1/approvals' })).json().budgets,
    [{ caller: 'local', per_day: '0.04 EUR', spent: '0.032 EUR' }])
  t.equal((await set('much')).statusCode, 400)
})

t.test('only who may decides: operator is not enough', async (t) => {
  const rig = await start(t, { allow: ['read', 'invoke', 'operator', 'cluster:write', 'plugin:manage'] })
  t.equal((await rig.inject({ url: '/v1/approvals' })).statusCode, 401)
  t.equal((await decide(rig, 'apr_000000000000', { decision: 'approve' })).statusCode, 401)
  const payload = { per_day: '5 EUR' }
  t.equal((await rig.inject({ method: 'PUT', url: '/v1/approvals/budgets/local', payload })).statusCode, 401)
})

t.test('a file of budgets that somebody broke is not believed', async (t) => {
  const problemOf = schemaChecker(keptSchema)
  const budget = { caller: 'a', unit: 'EUR', perDay: 5, spent: 0 }
  t.equal(problemOf({ format: 1, day: '2026-01-01', budgets: [budget] }), null)
  for (const bad of [{ perDay: 'much' }, { spent: -1 }, { spent: null }, { spent: 0.5 }, { caller: 1 }]) {
    t.match(problemOf({ day: '2026-01-01', budgets: [{ ...budget, ...bad }] }), /^budgets.0/)
  }
  t.match(problemOf({ day: 'always', budgets: [] }), /^day/)
})
