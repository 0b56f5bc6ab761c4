import t from 'tap'
import { card, GIB, ID, runnersAre, startPlacement, until, type Body, type PlacementRig } from './kit.js'
import { AUTOPLACE } from '../place/instance.js'
import { bodyOf } from '../../runners/service.js'
import { instanceOn } from './verb-kit.js'

const BODY = { model_id: 'acme/chat', wait: true, timeout_seconds: 60 }

function thrownBy (fn: () => void): unknown {
  try { fn() } catch (error) { return error }
  return undefined
}

/** Places a model with `wait`, and returns once the plugin is waiting for the model. */
async function waitOn (
  rig: PlacementRig, body: object = BODY
): Promise<{ id: string, answer: Promise<{ status: number, body: Body }> }> {
  const { reads } = rig
  const answer = rig.ask('POST', '/place_instance', body)
  // The plugin reads the state once to plan and once when it begins to wait.
  await until(() => rig.reads >= reads + 2)
  return { id: bodyOf(rig.placed.at(-1)!.instance).instanceId, answer }
}

t.test('with wait the answer comes when every runner is ready', async (t) => {
  const rig = await startPlacement(t)
  const { id, answer } = await waitOn(rig)
  runnersAre(rig.state, id, { RunnerLoading: { layersLoaded: 1, totalLayers: 3 } })
  await rig.clock.advance(30_000)
  runnersAre(rig.state, id, { RunnerReady: {} })
  await rig.clock.advance(250)
  const { status, body } = await answer
  t.equal(status, 200)
  t.match(body, { instance_id: id, message: /placed on n1/ })
})

t.test('when the time is up: 504 with the state reached', async (t) => {
  const rig = await startPlacement(t)
  const { id, answer } = await waitOn(rig)
  runnersAre(rig.state, id, { RunnerWarmingUp: {} })
  await rig.clock.advance(60_250)
  const { status, body } = await answer
  t.equal(status, 504)
  t.match(body.error, {
    reason: 'not_ready_yet', retryable: true, message: /not ready after 60 s: RunnerWarmingUp/,
    details: { instance_id: id, nodes: [{ node_id: 'id-n1', state: 'RunnerWarmingUp' }], remedy: /svc ps/ }
  })
  t.ok(rig.state.instances[id], 'it goes on')
})

t.test('a runner that waits says for what when the time is up', async (t) => {
  const rig = await startPlacement(t)
  const { id, answer } = await waitOn(rig)
  runnersAre(rig.state, id, { RunnerIdle: { waitsFor: {
    reason: 'download_failed', message: 'the store is away.', since: '2026-01-01T00:00:00Z', tries: 2
  } } })
  await rig.clock.advance(60_250)
  t.match((await answer).body.error, {
    reason: 'not_ready_yet', message: /RunnerIdle, which waits: the store is away\.$/
  })
})

t.test('the failure of a runner, and of a transfer', async (t) => {
  const rig = await startPlacement(t)
  const old = { DownloadFailed: { modelId: 'acme/chat', attemptId: 'old', errorMessage: 'then' } }
  rig.state.downloads['id-n1'] = [old]
  const first = await waitOn(rig)
  runnersAre(rig.state, first.id, { RunnerFailed: { errorMessage: 'out of luck' } })
  await rig.clock.advance(1000)
  rig.state.instanceFailures.push({
    instanceId: first.id, errorCode: 'runner_failed', errorMessage: 'out of luck', affectedNodeIds: ['id-n1']
  })
  await rig.clock.advance(5250)
  const failed = await first.answer
  t.equal(failed.status, 500)
  t.match(failed.body.error, {
    reason: 'instance_failed', message: /cannot start: out of luck/,
    details: { instance_id: first.id, node_ids: ['id-n1'], error_code: 'runner_failed' }
  })
  rig.state.instances = {}

  const second = await waitOn(rig)
  const download = (tag: string, attemptId: string): never =>
    ({ [tag]: { modelId: 'acme/chat', attemptId, errorMessage: 'no space' } }) as never
  rig.state.downloads['id-n1'] = [old, download('DownloadOngoing', 'new')]
  await rig.clock.advance(1000)
  rig.state.downloads['id-n1'] = [old, download('DownloadFailed', 'new')]
  await rig.clock.advance(5250)
  t.match((await second.answer).body.error, {
    reason: 'instance_failed', message: /no space/, details: { error_code: 'download_failed' }
  })
})

t.test('an instance that is removed meanwhile is lost; one that is late to show is not', async (t) => {
  const rig = await startPlacement(t)
  const first = await waitOn(rig)
  rig.state.instances = {}
  await rig.clock.advance(250)
  t.match((await first.answer).body.error,
    { reason: 'instance_lost', retryable: true, message: /was removed/ })
  const late = await startPlacement(t)
  late.answers.push('somewhere')
  const second = await waitOn(late)
  const { instance } = late.placed[0]!
  await late.clock.advance(4500)
  late.state.instances['somewhere'] = instance
  await late.clock.advance(250)
  for (const runnerId of Object.keys(bodyOf(instance).shardAssignments.runnerToShard)) {
    late.state.runners[runnerId] = { RunnerReady: {} }
  }
  await late.clock.advance(250)
  t.equal((await second.answer).status, 200)
})

/** Replaces a lost instance as the keeper does: adds a waiting entry, then places another instance for it. */
async function lose (rig: PlacementRig, id: string): Promise<void> {
  const ring = bodyOf(rig.state.instances[id]!)
  const { modelId } = ring.shardAssignments
  delete rig.state.instances[id]
  const { replaces } = ring.placement!
  await rig.decide('wait', { id, entry: {
    modelId, intent: ring.placement!, replaces, since: '2026-01-01T00:00:00Z', reason: 'insufficient_memory',
    message: 'n2: too little.'
  } })
}

async function replace (rig: PlacementRig, id: string, by: string): Promise<void> {
  const ring = bodyOf(rig.placed.at(-1)!.instance)
  rig.state.instances[by] = { RingInstance: {
    ...ring, instanceId: by, placement: { ...ring.placement!, replaces: id }
  } }
  await rig.decide('unwait', { id })
}

t.test('an instance that is lost meanwhile is followed to the one in its place', async (t) => {
  const rig = await startPlacement(t)
  const { id, answer } = await waitOn(rig)
  await rig.clock.advance(1000)
  await lose(rig, id)
  await rig.clock.advance(20_000)
  await replace(rig, id, 'second')
  await rig.clock.advance(1000)
  await lose(rig, 'second')
  await replace(rig, 'second', 'third')
  await rig.clock.advance(1000)
  runnersAre(rig.state, 'third', { RunnerReady: {} })
  await rig.clock.advance(250)
  t.match(await answer, { status: 200, body: { instance_id: 'third' } })
})

t.test('one that has failed is followed when it moves, and waited for while it may', async (t) => {
  const rig = await startPlacement(t)
  const { id, answer } = await waitOn(rig)
  rig.state.instanceFailures.push({
    instanceId: id, errorCode: 'runner_failed', errorMessage: 'no library', affectedNodeIds: ['id-n1']
  })
  await rig.clock.advance(4500)
  await lose(rig, id)
  await replace(rig, id, 'second')
  rig.state.instanceFailures = []
  await rig.clock.advance(6000)
  runnersAre(rig.state, 'second', { RunnerReady: {} })
  await rig.clock.advance(250)
  t.match(await answer, { status: 200, body: { instance_id: 'second' } })
})

t.test('the master refuses by what it knows itself', async (t) => {
  const rig = await startPlacement(t, { nodes: { n1: 40, n2: 16 }, cards: [card('acme/chat')] })
  await rig.ask('POST', '/place_instance', { model_id: 'acme/chat' })
  const { instance } = rig.placed[0]!
  const other = structuredClone(instance)
  bodyOf(other).instanceId = 'other'
  const entering = { instance: other, instances: [instance] }
  const refusal = thrownBy(() => { rig.check(entering) })
  t.match(refusal, { reason: 'insufficient_memory', status: 400,
    details: { nodes: [{ name: 'n1', reservedBytes: Number }], suggestions: [] } })
  rig.check({ instance: other, instances: [] })

  delete rig.state.nodeMemory['id-n1']
  rig.check(entering)
  t.pass('what the master was not told, the node that planned had')
})

t.test('any number that wait read the state once, after a change and for the readings', async (t) => {
  const rig = await startPlacement(t, { cards: [card('acme/chat', { totalBytes: GIB, files: [] })] })
  const first = await waitOn(rig)
  const answers = [first.answer]
  for (let i = 0; i < 9; i++) answers.push(rig.ask('POST', '/place_instance', BODY))
  await until(() => rig.placed.length === 10)
  await rig.rest(1000)
  const { reads } = rig
  await rig.rest(20_000)
  t.equal(rig.reads - reads, 10, 'every 2 s, for all of them')
  for (const id of Object.keys(rig.state.instances)) runnersAre(rig.state, id, { RunnerReady: {} })
  const before = rig.reads
  rig.changed()
  await rig.rest(250)
  t.equal(rig.reads - before, 1)
  t.strictSame(new Set((await Promise.all(answers)).map(({ status }) => status)), new Set([200]))
})

t.test('an instance that may only run on a node that is gone says how to move it', async (t) => {
  const rig = await startPlacement(t,
    { nodes: { n1: 64 }, lost: ['n2'], isMaster: true, config: { autoplace: [] } })
  const [[tag, body]] = Object.entries(instanceOn(ID, 'acme/chat', ['id-n2'])) as [[string, object]]
  const placement = { ...AUTOPLACE, origin: 'request', excluded: ['install-n1'] }
  rig.state.instances[ID] = { [tag]: { ...body, placement } } as never
  await rig.clock.advance(10_000)
  t.match(rig.absence('acme/chat'), {
    problem: /: Model acme\/chat may not be placed on n1 \(.*no other live node can run it/,
    remedy: new RegExp(`\`svc stop ${ID}\`, then \`svc place acme/chat\``)
  })
})
