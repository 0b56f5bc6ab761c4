import t from 'tap'
import { ClusterService, kernelError, SessionService } from '../../../kernel/index.js'
import type { Caller, Channel, NodeView } from '../../../kernel/index.js'
import { fake } from '../../../kernel/testing/index.js'
import type { Route, RouteQuery } from '../service.js'
import { InstanceService, RunnersService } from '../service.js'
import { RunnerError } from '../process/errors.js'
import { drain, endless, ensure, ready, startRunners, until } from './rig.js'
import type { FakeRunner, RunnersRig } from './rig.js'
import { card } from './samples.js'

const VOICE = 'svc/voice-en'
const caller: Caller = { id: 'ann', mode: 'direct', authorities: new Set(['invoke']) }
const query: RouteQuery = { modelId: VOICE, capability: 'tts', commandId: 'C', caller }
const task = { kind: 'tts', payload: { text: 'hello' } }
const never = new AbortController().signal

const shown = async (rig: RunnersRig): Promise<Record<string, { Inference: { status: string } }>> =>
  (await rig.state())['tasks']!

t.test('an instance that is being drained takes no new requests', async (t) => {
  const { rig, runner, runners } = await ready(t)
  runner.answer = endless
  const end = new AbortController()
  const running = drain(runners.open(await runners.route(query), task, end.signal)).catch(() => {})
  await until(() => runner.opened.length === 1)
  await rig.service(InstanceService).drain(runner.options.instanceId, { seconds: 60 })
  await t.rejects(runners.route(query), { reason: 'no_instance', status: 404, message: /is being stopped/,
    details: { brokenLink: 'placement', remedy: /svc place/ } })
  t.match(runners.models('tts'), [{ ready: false }])
  t.equal(runner.stopped, false, 'what it has is served')
  end.abort()
  await running
})

t.test('whoever asks goes with the task to the runner\'s queue', async (t) => {
  const { runner, runners } = await ready(t)
  const asked: unknown[] = []
  runner.open = async function * (_taskId: string, _task: unknown, _signal: AbortSignal, ...rest: unknown[]) {
    asked.push(...rest)
    yield { payload: {} }
  } as FakeRunner['open']
  await drain(runners.open(await runners.route(query), task, never))
  t.match(asked, [{ callerId: 'ann', trace: undefined }])
})

t.test('a lost instance is left out of the second try', async (t) => {
  const { runner, runners } = await ready(t)
  await t.rejects(runners.route({ ...query, except: [runner.options.instanceId] }),
    { reason: 'no_instance' } as never)
  t.equal((await runners.route({ ...query, except: ['another'] })).instanceId, runner.options.instanceId)
})

t.test('a model that is not placed is placed for a request, where somebody does that', async (t) => {
  const { rig, runners } = await ready(t, { cards: [card(VOICE), card('acme/x')], place: [VOICE] })
  const instances = rig.service(InstanceService)
  const wanted = { ...query, modelId: 'acme/x' }
  const asked: RouteQuery[] = []
  let answer = async (): Promise<boolean> => false
  const end = instances.onMissing(async (missing) => { asked.push(missing); return await answer() })
  await t.rejects(runners.route(wanted), { details: { brokenLink: 'placement' } } as never, 'not this one')
  t.equal(asked.length, 1)
  t.equal(asked[0]?.caller.id, 'ann')
  answer = async () => { throw kernelError('not_ready', 'It does not fit.') }
  await t.rejects(runners.route(wanted), { reason: 'not_ready' } as never, 'its errors are the answer')
  answer = async () => {
    await ensure(rig, 'acme/x')
    ;(await rig.runner('acme/x')).ready()
    return true
  }
  t.equal((await runners.route(wanted)).modelId, 'acme/x')
  t.equal(asked.length, 3)
  await runners.route(wanted)
  await t.rejects(runners.route({ ...wanted, modelId: 'acme/none' }),
    { details: { brokenLink: 'card' } } as never)
  t.equal(asked.length, 3, 'not where something else is missing')
  end()
})

t.test('nothing is placed for what the model cannot do', async (t) => {
  const { rig, runners } = await ready(t, { cards: [card(VOICE), card('acme/x')], place: [VOICE] })
  let asked = 0
  const end = rig.service(InstanceService).onMissing(async () => { asked += 1; return true })
  await t.rejects(runners.route({ ...query, modelId: 'acme/x', capability: 'chat' }),
    { reason: 'no_instance' } as never)
  t.equal(asked, 0)
  end()
  await t.rejects(runners.route({ ...query, modelId: 'acme/x' }),
    { details: { brokenLink: 'placement' } } as never)
  t.equal(asked, 0, 'nor after the end')
})

interface Race { name: string, act (runner: FakeRunner, end: AbortController): void, reasons: string[] }
const races: Race[] = [
  { name: 'kill, then cancel', reasons: ['instance_lost', 'cancelled'], act (runner, end) {
    runner.move({ RunnerIdle: {} })
    end.abort(kernelError('cancelled'))
  } },
  { name: 'cancel, then kill', reasons: ['cancelled'], act (runner, end) {
    end.abort(kernelError('cancelled'))
    runner.move({ RunnerIdle: {} })
  } },
  { name: 'deadline and kill', reasons: ['timeout'], act (runner, end) {
    end.abort(kernelError('timeout'))
    runner.move({ RunnerIdle: {} })
  } }
]
for (const { name, act, reasons } of races) {
  t.test(`one terminal after ${name} in the middle`, async (t) => {
    const { rig, runner, runners } = await ready(t)
    // The task is lost when the status changes, or cancelled when the signal aborts, whichever happens first.
    runner.answer = async function * (_task, signal) {
      yield { payload: { chunk_index: 0 } }
      await until(() => signal.aborted || 'RunnerIdle' in (runner.status))
      throw 'RunnerIdle' in runner.status
        ? new RunnerError('instance_lost', 'It was killed.')
        : new RunnerError('cancelled', 'The task was cancelled.')
    }
    const end = new AbortController()
    const route = await runners.route(query)
    let chunks = 0
    const ends: string[] = []
    const reading = (async () => {
      try {
        for await (const chunk of runners.open(route, task, end.signal)) {
          if (chunk.payload['chunk_index'] === 0) chunks += 1
          if (chunks === 1) act(runner, end)
        }
        ends.push('clean')
      } catch (error) {
        ends.push((error as { reason: string }).reason)
      }
    })()
    await reading
    t.equal(ends.length, 1)
    t.ok(reasons.includes(ends[0]!), ends[0]!)
    const status = (await shown(rig))[route.taskId]?.Inference.status
    t.ok(['Failed', 'Cancelled', 'TimedOut'].includes(status!), status!)
    end.abort()
    runner.move({ RunnerConnecting: {} })
    await rig.clock.advance(1000)
    t.equal((await shown(rig))[route.taskId]?.Inference.status, status, 'and it stays')
    t.ok(rig.events.filter(({ kind }) => kind === 'TaskFailed').length <= 1)
  })
}

t.test('in a young session of several nodes nothing is said not to be placed', async (t) => {
  const session = { sessionId: 'S1', masterNodeId: null as string | null }
  const told: (() => void)[] = []
  const next = (sessionId: string): void => {
    session.sessionId = sessionId
    for (const fn of told) fn()
  }
  const nodes = [{ self: true, live: true }, { self: false, live: true }] as NodeView[]
  const rig = await startRunners(t, { place: [], fakes: [
    fake(ClusterService, {
      nodes: () => nodes, resolve: () => undefined, onPeers: () => () => {},
      channel: () => ({ send: () => false, broadcast: () => 0, close () {} })
    }),
    fake(SessionService, {
      get sessionId () { return session.sessionId },
      isMaster: false,
      get masterNodeId () { return session.masterNodeId },
      onChange (fn) { told.push(fn); return () => {} }
    })
  ] })
  const runners = rig.service(RunnersService)
  const says = async (status: number): Promise<void> => {
    const refused = t.rejects(runners.route(query),
      { reason: 'no_instance', status, retryable: status === 503 } as never)
    await rig.clock.advance(status === 503 ? 3000 : 0)
    await refused
  }
  await rig.clock.advance(3000)
  await says(503)
  session.masterNodeId = 'n-B'
  await says(404)
  next('S2')
  const route = runners.route(query)
  await ensure(rig, VOICE)
  ;(await rig.runner(VOICE)).ready()
  await rig.clock.advance(100)
  t.match(await route, { modelId: VOICE }, 'it is looked again before it is refused')
  await rig.service(InstanceService).remove((await route).instanceId)
  await rig.clock.advance(3000)
  await says(404)
  nodes.length = 1
  next('S3')
  await says(404)
})

t.test('the plugin tells other nodes of its tasks and shows theirs', async (t) => {
  const sent: { to: string, message: { loads: object, tasks: Route[] } }[] = []
  let hear: (from: string, message: unknown) => void = () => {}
  const other = { installId: 'B', nodeId: 'n-B', name: 'beta', self: false, live: true } as NodeView
  const { rig, runner, runners } = await ready(t, { fakes: [fake(ClusterService, {
    nodes: () => [other],
    resolve: () => undefined,
    onPeers: () => () => {},
    channel: <T>(name: string, receive: (from: string, message: T) => void): Channel<T> => {
      if (name === 'runners.tasks') hear = receive as typeof hear
      return {
        send (to, message) { sent.push({ to, message: message as never }); return true },
        broadcast: () => 0,
        close () {}
      }
    }
  })] })
  await rig.clock.advance(1000)
  const route = await runners.route(query)
  await rig.clock.advance(1000)
  t.match(sent.at(-1), { to: 'B', message: { loads: { [runner.options.runnerId]: 1 },
    tasks: [{ taskId: route.taskId, status: 'Pending' }] } })
  await drain(runners.open(route, task, never))
  await rig.clock.advance(1000)
  t.match(sent.at(-1), { message: { loads: {}, tasks: [{ taskId: route.taskId, status: 'Complete' }] } })
  t.notMatch(JSON.stringify(sent), /hello/)
  const theirs = { taskId: 'theirs', commandId: 'c', instanceId: 'i', modelId: 'acme/y', capability: 'chat',
    status: 'Running', createdAt: 'T' }
  hear('B', { whole: true, loads: {}, tasks: [theirs], ended: [] })
  t.same(Object.keys(await shown(rig)).sort(), [route.taskId, 'theirs'].sort())
})
