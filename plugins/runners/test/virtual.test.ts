/** Models that plugins answer themselves, alongside models with runners. */
import t, { type Test } from 'tap'
import { kernelError, type Caller, type EngineTask, type SvcError } from '../../../kernel/index.js'
import { drain, ready } from './rig.js'
import { card } from './samples.js'
import type { RouteQuery, VirtualModel } from '../service.js'

const ORACLE = 'acme/oracle'
const caller: Caller = { id: 'test', mode: 'direct', authorities: new Set(['invoke']) }
const query: RouteQuery = { modelId: ORACLE, capability: 'chat', commandId: 'C', caller }
const task: EngineTask = { kind: 'chat', payload: { messages: [] } }
const never = new AbortController().signal

/** Repeats its input; `refusal` is its reason to refuse. */
function oracle (state: { refusal: SvcError | null, seen: boolean }): VirtualModel & { asked: unknown[] } {
  const asked: unknown[] = []
  return {
    asked,
    card: () => state.seen ? card(ORACLE, { tasks: ['chat'] }) : undefined,
    refusal: () => state.refusal,
    async * open ({ kind, payload }, { caller, commandId }, signal) {
      asked.push({ kind, caller: caller.id, commandId })
      signal.throwIfAborted()
      yield { payload }
    }
  }
}

const refused = async (t: Test, work: Promise<unknown>, error: object): Promise<void> => {
  t.match(await work.catch((thrown: unknown) => thrown), error)
}

t.test('a virtual model is routed to its plugin, and is no instance, runner or task', async (t) => {
  const { rig, runners, runner } = await ready(t)
  const state = { refusal: null as SvcError | null, seen: true }
  const model = oracle(state)
  const end = runners.virtual(ORACLE, model)
  const before = await rig.state()
  const route = await runners.route(query)
  t.match(route, { taskId: /^[0-9a-f-]{36}$/, instanceId: '', runnerId: '', modelId: ORACLE })
  t.strictSame(await drain(runners.open(route, task, never)), [{ payload: { messages: [] } }])
  t.strictSame(model.asked, [{ kind: 'chat', caller: 'test', commandId: 'C' }])
  t.match(runners.card(ORACLE), { modelId: ORACLE })
  t.match(runners.models('chat'), [{ card: { modelId: ORACLE }, ready: true }])
  t.match((await rig.inject({ url: `/models/${ORACLE}/availability` })).json(),
    { available: true, broken_link: null, links: [{ link: 'card', ok: true }] })
  t.match((await rig.inject({ url: `/readyz?model=${ORACLE}` })).json(),
    { checks: [{ detail: /^/ }, { name: 'runners', ok: true, detail: 'this node answers it itself' }] })
  const after = await rig.state()
  for (const key of ['instances', 'runners', 'tasks']) t.strictSame(after[key], before[key], key)
  t.strictSame(runner.opened, [])
  end()
  await refused(t, runners.route(query), { reason: 'no_instance', details: { brokenLink: 'card' } })
  t.equal(runners.card(ORACLE), undefined)
})

t.test('what it does not do, or refuses now, is told before anything runs', async (t) => {
  const { rig, runners } = await ready(t)
  const state = { refusal: null as SvcError | null, seen: true }
  const model = oracle(state)
  runners.virtual(ORACLE, model)
  const availability = async (): Promise<object> =>
    (await rig.inject({ url: `/models/${ORACLE}/availability` })).json()
  await refused(t, runners.route({ ...query, capability: 'embeddings' }), {
    reason: 'wrong_task', status: 400, details: { brokenLink: 'request' },
    message: 'acme/oracle: it does not support embeddings, only chat.'
  })
  state.refusal = kernelError('not_ready', 'It wakes up.')
  await refused(t, runners.route(query), { reason: 'not_ready', status: 503, retryAfterSeconds: 2 })
  t.match(runners.models('chat'), [{ ready: false }])
  t.match(await availability(), {
    available: false, broken_link: 'runner', message: 'It wakes up', remedy: /svc status/,
    links: [{ ok: true }, { ok: true }, { ok: true }, { ok: true }, { ok: false }, { ok: null }]
  })
  state.refusal = kernelError('not_found', 'It is off.')
  state.seen = false
  await refused(t, runners.route(query), { reason: 'not_found', status: 404 })
  t.match(await availability(), { available: false, broken_link: 'card', message: 'It is off' })
  t.strictSame(runners.models('chat'), [])
  t.strictSame(model.asked, [])
})
