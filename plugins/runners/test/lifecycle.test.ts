import t from 'tap'
import { manualClock, type TestContext } from '../../../kernel/testing/index.js'
import { InstanceShutdown } from '../instances/shutdown.js'
import { RunnerError } from '../process/errors.js'
import { InstanceService, RunnersService, type Instances, type PlacementIntent } from '../service.js'
import { ensure, startRunners, until, type FakeRunner, type RunnersRig } from './rig.js'
import { card, soloInstance } from './samples.js'
import { bodyOf } from '../instances/shapes.js'

const VOICE = 'svc/voice-en'
const caller = { id: 'somebody', mode: 'direct' as const, authorities: new Set(['invoke']) }
const intent: PlacementIntent = {
  origin: 'request', sharding: 'Pipeline', instanceMeta: 'Ring', minNodes: 1, excluded: [], failedOn: [],
  ttlSeconds: null, replaces: null
}

interface Made { rig: RunnersRig, instances: Instances, instanceId: string, runner: FakeRunner }

/** The plugin with one placed instance. */
async function placed (t: TestContext, intent?: PlacementIntent): Promise<Made> {
  const rig = await startRunners(t, { place: [] })
  const instances = rig.service(InstanceService)
  const nodeId = String((await rig.state())['localNodeId'])
  const instance = soloInstance({ instanceId: 'I', runnerId: 'R', nodeId }, card(VOICE))
  if (intent !== undefined) bodyOf(instance).placement = intent
  const instanceId = await instances.place(instance)
  return { rig, instances, instanceId, runner: await rig.runner(VOICE) }
}

/** A request that runs until `finish` is called; `end` resolves to `completed` or its error's reason. */
async function request ({ rig, runner }: Made): Promise<{ finish: () => void, end: Promise<string> }> {
  let finish = (): void => {}
  const done = new Promise<void>((resolve) => { finish = resolve })
  runner.answer = async function * () {
    yield { payload: {} }
    await Promise.race([done, until(() => runner.stopped)])
    if (runner.stopped) throw new RunnerError('instance_lost', 'The instance was stopped.')
  }
  const runners = rig.service(RunnersService)
  const route = await runners.route({ modelId: VOICE, capability: 'tts', commandId: 'C', caller })
  const stream = runners.open(route, { kind: 'tts', payload: {} }, new AbortController().signal)
  const chunks = stream[Symbol.asyncIterator]()
  await chunks.next()
  const end = (async () => {
    try {
      while ((await chunks.next()).done !== true);
      return 'completed'
    } catch (error) {
      return (error as { reason: string }).reason
    }
  })()
  return { finish, end }
}

const instancesOf = async (rig: RunnersRig): Promise<string[]> =>
  Object.keys((await rig.state())['instances'] as unknown as object)
const eventsOf = (rig: RunnersRig, kind: string): unknown[] =>
  rig.events.filter((event) => event.kind === kind).map(({ payload }) => payload)
const statuses = async (rig: RunnersRig): Promise<string[]> =>
  Object.values((await rig.state())['tasks'] as unknown as Record<string, { Inference: { status: string } }>)
    .map(({ Inference: { status } }) => status)

t.test('a drained instance ends with its last request', async (t) => {
  const made = await placed(t)
  const { rig, instances, runner } = made
  runner.ready()
  const { finish, end } = await request(made)
  await instances.drain('I', { seconds: 30 })
  await rig.clock.advance(10_000)
  t.notOk(runner.stopped)
  const stop = runner.stop.bind(runner)
  runner.stop = async () => {
    t.strictSame(eventsOf(rig, 'InstanceDeleted'), [], 'the runner goes first')
    await stop()
  }
  t.strictSame(await instancesOf(rig), ['I'])
  t.match(await rig.state(), { instances: { I: { RingInstance: { drainUntil: /^2026-01-01T00:00:30/ } } } })
  await instances.drain('I', { seconds: 3600 })
  finish()
  t.equal(await end, 'completed')
  await rig.clock.advance(250)
  await until(() => eventsOf(rig, 'InstanceDeleted').length === 1)
  t.ok(runner.stopped)
  t.strictSame(await instancesOf(rig), [])
  t.strictSame((await rig.state())['runners'], {})
  t.strictSame(await statuses(rig), ['Complete'])
  await t.rejects(instances.drain('I', { seconds: 30 }), /No instance I/)
  await rig.clock.advance(60_000)
  t.equal(eventsOf(rig, 'InstanceDeleted').length, 1)
})

t.test('at the deadline what it still serves is lost, once', async (t) => {
  const made = await placed(t)
  const { rig, instances, runner } = made
  runner.ready()
  const { end } = await request(made)
  await instances.drain('I', { seconds: 5 })
  await instances.drain('I', { seconds: 300 })
  await rig.clock.advance(4750)
  t.notOk(runner.stopped)
  await rig.clock.advance(250)
  t.equal(await end, 'instance_lost')
  await until(() => eventsOf(rig, 'InstanceDeleted').length === 1)
  t.strictSame(await statuses(rig), ['Failed'])
  t.match(eventsOf(rig, 'TaskFailed'), [{ errorType: 'instance_lost' }])
  t.equal(eventsOf(rig, 'TaskFailed').length, 1)
})

t.test('nobody served: at once, whatever its runner does', async (t) => {
  for (const state of ['ready', 'starting', 'failed']) {
    const { rig, instances, runner } = await placed(t)
    if (state === 'ready') runner.ready()
    if (state === 'failed') runner.giveUp('no luck')
    await instances.drain('I', { seconds: 30 })
    await until(() => eventsOf(rig, 'InstanceDeleted').length === 1)
    t.ok(runner.stopped, state)
    t.strictSame(await instancesOf(rig), [], state)
  }
})

t.test('no time: it is removed at once, with what it serves', async (t) => {
  const made = await placed(t)
  made.runner.ready()
  const { end } = await request(made)
  await made.instances.drain('I', { seconds: 0 })
  await until(() => eventsOf(made.rig, 'InstanceDeleted').length === 1)
  t.strictSame(eventsOf(made.rig, 'InstanceDeleted'), [{ instanceId: 'I', modelId: VOICE }])
  t.equal(await end, 'instance_lost')
})

t.test('the same model placed while the old one drains is a new one beside it', async (t) => {
  const made = await placed(t)
  const { rig, instances, runner } = made
  runner.ready()
  const { finish, end } = await request(made)
  await instances.drain('I', { seconds: 60 })
  const { instanceId } = await ensure(rig, VOICE)
  t.not(instanceId, 'I')
  const second = await until(() => rig.runners.find(({ options }) => options.instanceId === instanceId))
  second.ready()
  t.strictSame((await rig.state())['runners'],
    { R: { RunnerReady: {} }, [second.options.runnerId]: { RunnerReady: {} } })
  finish()
  t.equal(await end, 'completed')
  await rig.clock.advance(250)
  await until(() => eventsOf(rig, 'InstanceDeleted').length > 0)
  t.strictSame(await instancesOf(rig), [instanceId])
  t.strictSame((await rig.state())['runners'], { [second.options.runnerId]: { RunnerReady: {} } })
  t.notOk(second.stopped)
})

t.test('what nobody uses for its ttl is unloaded', async (t) => {
  const made = await placed(t, { ...intent, ttlSeconds: 60 })
  const { rig, runner } = made
  await rig.clock.advance(61_000)
  t.strictSame(await instancesOf(rig), ['I'], 'it only counts from ready on')
  runner.ready()
  await rig.clock.advance(30_000)
  const { finish, end } = await request(made)
  await rig.clock.advance(61_000)
  t.notOk(runner.stopped, 'a request is a use')
  finish()
  t.equal(await end, 'completed')
  await rig.clock.advance(59_000)
  t.strictSame(await instancesOf(rig), ['I'])
  await rig.clock.advance(2000)
  await until(() => eventsOf(rig, 'InstanceUnloaded').length > 0)
  await until(() => eventsOf(rig, 'InstanceDeleted').at(-1) !== undefined && runner.stopped)
  t.match(eventsOf(rig, 'InstanceUnloaded'), [{ instanceId: 'I', modelId: VOICE, idleSeconds: 60 }])
  t.strictSame(await instancesOf(rig), [])
})

t.test('without a ttl it stays', async (t) => {
  const { rig, runner } = await placed(t, intent)
  runner.ready()
  await rig.clock.advance(120_000)
  t.strictSame(await instancesOf(rig), ['I'])
})

t.test('a model is not loaded where its memory is not free', async (t) => {
  let free = 5_000_000
  const rig = await startRunners(t, { machine: { freeRam: async () => free }, place: [] })
  const { instanceId } = await ensure(rig, VOICE)
  await until(() => eventsOf(rig, 'InstanceFailureRecorded').length > 0)
  const errorMessage = /needs 261 MiB of memory .* only 4\.8 MiB are free/
  const told = { errorCode: 'insufficient_memory', errorMessage }
  t.match(eventsOf(rig, 'InstanceFailureRecorded'), [{ instanceId, ...told }])
  t.match(eventsOf(rig, 'RunnerFailed'), [{ instanceId, attempts: 0, ...told }])
  const state = await rig.state()
  t.match(state['instanceFailures'], [{ instanceId, ...told }])
  t.match(Object.values(state['runners']!), [{ RunnerFailed: told }])
  t.equal(rig.runners.length, 0)
  free = 10 * 1024 ** 3
  await ensure(rig, VOICE)
  ;(await rig.runner(VOICE)).ready()
})

t.test('what was removed is releasing until its process is gone', async (t) => {
  const { instances, runner } = await placed(t)
  runner.ready()
  let gone: (() => void) | undefined
  const stop = runner.stop.bind(runner)
  runner.stop = async () => {
    await new Promise<void>((resolve) => { gone = resolve })
    await stop()
  }
  t.strictSame(instances.releasing(), [])
  await instances.remove('I', { ended: false })
  await until(() => gone !== undefined)
  t.match(instances.releasing(), [{ instance: { RingInstance: { instanceId: 'I' } }, nodeIds: [String] }])
  gone!()
  await until(() => instances.releasing().length === 0)
})

t.test('where other nodes route requests, a runner is stopped only after a quiet moment', async (t) => {
  const clock = manualClock()
  const ring = bodyOf(soloInstance({ instanceId: 'I', runnerId: 'R', nodeId: 'n' }, card(VOICE)))
  let there = [{ ring: { ...ring, drainUntil: '2026-01-01T00:00:30.000Z' } }]
  const removed: string[] = []
  const status = new Map([['n R', { RunnerShuttingDown: {} }], ['far Q', { RunnerReady: {} }]])
  let observe = (): void => {}
  const live = new Map([['n', true], ['far', true]])
  const endings = new InstanceShutdown({
    nodeId: 'n',
    clock,
    log: { debug () {}, info () {}, warn () {}, error () {}, fatal () {} },
    cluster: {
      nodes: () => [...live].map(([nodeId, live]) => ({ nodeId, self: nodeId === 'n', live })),
      resolve: (nodeId: string) => ({ live: live.get(nodeId) })
    } as never,
    sections: {
      instances: {
        entries: () => there.map(({ ring }) => ({ key: 'I', value: { RingInstance: ring } })),
        observe: (fn: () => void) => { observe = fn; return () => {} }
      },
      runners: { get: (runnerId: string, nodeId: string) => status.get(`${nodeId} ${runnerId}`) }
    } as never,
    led: () => there.map(({ ring }) =>
      ({ ring, assignment: { instanceId: 'I', runnerId: 'R', modelId: VOICE } })),
    fleet: { get: () => undefined, ready: () => false },
    outstanding: () => 0,
    reconcile: async () => {},
    remove: async (id) => { removed.push(id); there = []; observe(); return true },
    drain: async () => true,
    unloaded () {}
  })
  t.notOk(endings.done('R'))
  ring.shardAssignments.nodeToRunner['far'] = 'Q'
  await clock.advance(249)
  t.strictSame(removed, [])
  await clock.advance(1)
  t.strictSame(removed, ['I'])
  const nodes = (): string[] => endings.releasing().flatMap(({ nodeIds }) => nodeIds)
  t.strictSame(nodes(), ['n', 'far'])
  live.set('far', false)
  t.strictSame(nodes(), ['n'], 'a node that is gone gives nothing back')
  status.set('n R', { RunnerIdle: {} } as never)
  t.strictSame(nodes(), [], 'what has not begun to load gives nothing back')
  status.set('n R', { RunnerFailed: {} } as never)
  t.strictSame(nodes(), [], 'a failed runner holds nothing')
  endings.close()
})

t.test('the code of a failure tells what kind it is', async (t) => {
  const { rig, runner } = await placed(t)
  runner.giveUp('warmup did not finish within 300 s', 'warmup_timeout')
  t.match(eventsOf(rig, 'InstanceFailureRecorded'), [{ errorCode: 'warmup_timeout' }])
})
