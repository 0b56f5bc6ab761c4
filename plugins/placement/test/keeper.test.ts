import t from 'tap'
import { kernelError } from '../../../kernel/index.js'
import { SLOWEST_BYTES_PER_SECOND, STALL_SECONDS, Stalls, WARMUP_SECONDS } from '../keeper/stalls.js'
import { onceFor } from '../keeper/once.js'
import { MISSING_MS, SUSPECT_MS } from '../keeper/lost-nodes.js'
import { refuse } from '../errors.js'
import { card, GIB, nodeView, runnersAre } from './kit.js'
import type { Waiting } from './keeper-kit.js'
import type { PlacementRig } from './kit.js'
import { ids, instance, intent, passes, placedOn, put, startKeeper, waiting } from './keeper-kit.js'
import { bodyOf } from '../../runners/service.js'

t.test('a node that is lost: its instance is placed elsewhere', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-n2'], { placement: intent({ ttlSeconds: 60, minNodes: 1 }) })
  await rig.clock.advance(5000)
  t.strictSame(ids(rig), ['a'])
  rig.views[1] = nodeView('n2', { live: false })
  await rig.clock.advance(1000)
  const ms = await passes(rig, 'another place', () => rig.placed.length === 1)
  t.ok(ms > MISSING_MS - 1200 && ms <= MISSING_MS, `placed after ${ms + 1000} ms`)
  t.strictSame(placedOn(rig), ['id-n1'])
  t.match(bodyOf(rig.placed[0]!.instance).placement,
    { origin: 'request', ttlSeconds: 60, replaces: 'a', failedOn: [] })
  t.equal(rig.placed[0]!.options?.force ?? false, false, 'by the planner')
  t.strictSame(rig.removed, ['a'])
  await rig.clock.advance(2000)
  t.strictSame([await waiting(rig), rig.placed.length], [{}, 1])
  t.strictSame(rig.commands, [['wait', onceFor('wait', 'a')], ['unwait', undefined]],
    'an entry is made once; one that a late repetition enters again is ended again')
  t.match(rig.events.find(({ kind }) => kind === 'InstanceWaiting')?.payload,
    { instanceId: 'a', modelId: 'acme/chat', reason: 'node_lost', message: 'Its node n2 was lost.' })
})

t.test('a node that is away for less than that keeps what it has', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-n2'])
  for (let i = 0; i < 3; i++) {
    rig.views[1] = nodeView('n2', { live: false })
    await rig.clock.advance(MISSING_MS - 1200)
    rig.views[1] = nodeView('n2')
    await rig.clock.advance(1200)
  }
  t.strictSame([ids(rig), rig.removed], [['a'], []])
})

t.test('a node that only the master has lost keeps its instance for the time of a suspicion', async (t) => {
  const rig = await startKeeper(t, { nodes: { n1: 64, n2: 64, n3: 64 } })
  put(rig, 'a', ['id-n2'])
  await rig.clock.advance(2000)
  rig.reached.add('id-n2')
  rig.views[1] = nodeView('n2', { live: false })
  await rig.clock.advance(SUSPECT_MS - 2000)
  t.strictSame([ids(rig), rig.removed], [['a'], []])
  rig.views[1] = nodeView('n2')
  await rig.clock.advance(SUSPECT_MS)
  t.strictSame([ids(rig), rig.removed], [['a'], []], 'the link is back: nothing has happened')
  rig.views[1] = nodeView('n2', { live: false })
  await rig.clock.advance(MISSING_MS + 1000)
  t.strictSame(rig.removed, [])
  rig.reached.clear()
  await passes(rig, 'another place', () => rig.placed.length === 1, 2000)
  t.strictSame(rig.removed, ['a'], 'nobody reaches it any more')
})

t.test('a node that started anew: at once', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-of-before'])
  await passes(rig, 'a new place', () => rig.placed.length === 1, 1200)
  t.strictSame(rig.removed, ['a'])
})

t.test('who is not master does nothing', async (t) => {
  const rig = await startKeeper(t, { isMaster: false, config: { autoplace: ['acme/chat'] } })
  put(rig, 'a', ['id-of-before'])
  await rig.clock.advance(20_000)
  t.strictSame([ids(rig), rig.removed, rig.placed], [['a'], [], []])
})

t.test('nobody has a place: it waits, says why once, and looks again', async (t) => {
  const rig = await startKeeper(t)
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = GIB
  rig.state.nodeMemory['id-n2']!.ramAvailable.inBytes = GIB
  put(rig, 'a', ['id-of-before'])
  let all: Waiting = {}
  for (let i = 0; i < 100 && all['a']?.reason !== 'insufficient_memory'; i++) {
    await rig.clock.advance(50)
    all = await waiting(rig)
  }
  const seen = { instanceId: 'a', modelId: 'acme/chat', origin: 'request', reason: 'insufficient_memory' }
  t.match(all, { a: seen })
  rig.state.nodeMemory['id-n2']!.ramAvailable.inBytes = GIB + 1
  await rig.clock.advance(20_000)
  t.strictSame(await waiting(rig), all, 'the numbers in a message are written once')
  t.strictSame([ids(rig), rig.placed], [[], []])
  rig.state.nodeMemory['id-n2']!.ramAvailable.inBytes = 32 * GIB
  await passes(rig, 'a place', () => rig.placed.length === 1, 1200)
  t.strictSame(placedOn(rig), ['id-n2'])
})

t.test('what the master refuses is planned again, less and less often', async (t) => {
  const rig = await startKeeper(t)
  rig.answers.push(...Array.from({ length: 5 }, () => refuse('insufficient_memory', 'No.')))
  put(rig, 'a', ['id-of-before'])
  const times: number[] = []
  for (let i = 1; i <= 6; i++) {
    await passes(rig, `try ${i}`, () => rig.placed.length === i)
    times.push(rig.clock.mono())
  }
  // The second attempt followed without a pause, because removing the instance had freed memory.
  const gaps = times.slice(2).map((at, i) => at - times[i + 1]!)
  t.ok(gaps.every((gap, i) => gap >= 250 * 2 ** i && gap <= 250 * 2 ** i + 1100), `${gaps}`)
})

t.test('a master without a quorum tries again quietly', async (t) => {
  const rig = await startKeeper(t)
  rig.answers.push(kernelError('no_quorum'), kernelError('session_changed'))
  put(rig, 'a', ['id-of-before'])
  await passes(rig, 'the third try', () => rig.placed.length === 3)
  await rig.clock.advance(1000)
  t.equal(ids(rig).length, 1)
  t.strictSame(rig.logged.filter(({ level, message }) => level === 'warn' && /could not/.test(message)), [])
})

t.test('beside an instance of the same model only another node counts', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-of-before'])
  put(rig, 'b', ['id-n1'])
  put(rig, 'c', ['id-n2'])
  await passes(rig, 'the loss', () => rig.removed.length === 1)
  await rig.clock.advance(3000)
  t.match(await waiting(rig), { a: { reason: 'placed_already' } })
  delete rig.state.instances['c']
  await passes(rig, 'a place', () => rig.placed.length === 1)
  t.strictSame(placedOn(rig), ['id-n2'])
})

t.test('a failure moves an instance, and where it failed is the last choice', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-n1'])
  runnersAre(rig.state, 'a', { RunnerFailed: { errorMessage: 'x' } })
  rig.state.instanceFailures.push({
    instanceId: 'a', errorCode: 'insufficient_memory', errorMessage: 'Too little', affectedNodeIds: ['id-n1']
  })
  await passes(rig, 'the move', () => rig.placed.length === 1)
  t.strictSame(placedOn(rig), ['id-n2'])
  t.match(bodyOf(rig.placed[0]!.instance).placement, { replaces: 'a', failedOn: ['install-n1'] })
  await rig.clock.advance(1000)
  rig.views[1] = nodeView('n2', { live: false })
  await passes(rig, 'the way back', () => rig.placed.length === 2)
  t.strictSame(placedOn(rig), ['id-n1'])
})

t.test('a failure with no other place stays as it is', async (t) => {
  const rig = await startKeeper(t, { nodes: { n1: 64 } })
  put(rig, 'a', ['id-n1'])
  runnersAre(rig.state, 'a', { RunnerFailed: { errorMessage: 'x' } })
  rig.state.instanceFailures.push({
    instanceId: 'a', errorCode: 'runner_failed', errorMessage: 'x', affectedNodeIds: ['id-n1']
  })
  await rig.clock.advance(10_000)
  t.strictSame([ids(rig), rig.removed, rig.placed], [['a'], [], []])
})

t.test('nothing moves for too long: that is a failure', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-n1'])
  runnersAre(rig.state, 'a', { RunnerLoading: { layersLoaded: 1, totalLayers: 9 } })
  await rig.clock.advance(100_000)
  runnersAre(rig.state, 'a', { RunnerLoading: { layersLoaded: 2, totalLayers: 9 } })
  await rig.clock.advance((STALL_SECONDS - 2) * 1000)
  t.strictSame(rig.failed, [], 'it got on')
  await rig.clock.advance(5000)
  t.match(rig.failed, [{ instanceId: 'a', errorCode: 'no_progress', affectedNodeIds: ['id-n1'] }])
  t.strictSame(placedOn(rig), ['id-n2'], 'and handled like one')
})

t.test('one that got on after all has not failed when its runner starts again', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-n1'])
  runnersAre(rig.state, 'a', { RunnerIdle: {} })
  rig.views[1] = nodeView('n2', { live: false })
  await rig.clock.advance((STALL_SECONDS + 5) * 1000)
  t.match(rig.failed, [{ instanceId: 'a', errorCode: 'no_progress' }])
  runnersAre(rig.state, 'a', { RunnerReady: {} })
  rig.views[1] = nodeView('n2')
  await rig.clock.advance(2000)
  runnersAre(rig.state, 'a', { RunnerIdle: {} })
  await rig.clock.advance(20_000)
  t.strictSame([ids(rig), rig.removed], [['a'], []])
  await rig.clock.advance(STALL_SECONDS * 1000)
  t.strictSame(placedOn(rig), ['id-n2'], 'until it stands still again')
})

/** Calls `act` right before an instance is removed. */
const beforeRemoving = (rig: PlacementRig, act: (id: string) => void): void => {
  rig.removed.push = (id) => {
    act(id)
    return 0
  }
}

t.test('a session that ends in the middle of a loss leaves the entry to the next master', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-of-before'])
  beforeRemoving(rig, (id) => {
    // The next master removes the instance before this one does.
    delete rig.state.instances[id]
    rig.session.isMaster = false
  })
  await passes(rig, 'the loss', () => !rig.session.isMaster)
  await rig.clock.advance(5000)
  t.match(await waiting(rig), { a: { reason: 'node_lost' } })
  rig.session.isMaster = true
  await passes(rig, 'a place', () => rig.placed.length === 1)
})

t.test('what cannot be done for one instance is done for the others', async (t) => {
  const rig = await startKeeper(t)
  put(rig, 'a', ['id-of-before'])
  put(rig, 'b', ['id-of-before'])
  beforeRemoving(rig, (id) => { if (id === 'a') throw new Error('a defect') })
  await passes(rig, 'the place of b', () => rig.placed.length > 0)
  t.match(bodyOf(rig.placed[0]!.instance).placement, { replaces: 'b' })
})

t.test('a card that cannot be read keeps nothing else from its place', async (t) => {
  const rig = await startKeeper(t, { brokenCard: true, config: {} })
  put(rig, 'a', ['id-of-before'])
  await passes(rig, 'a place', () => rig.placed.length === 1)
  await rig.clock.advance(10_000)
  t.equal(rig.logged.filter(({ message }) => message === 'models cannot be placed automatically').length, 1)
})

t.test('a transfer whose turn has not come waits for the others', (t) => {
  const one = instance('a', ['id-n1'])
  const stalls = new Stalls()
  const other = { modelId: 'acme/large', downloadProgress: { downloaded: 1 } }
  const state = {
    instances: { a: one }, runners: {},
    downloads: { 'id-n1': [{ DownloadOngoing: other }, { DownloadPending: { modelId: 'acme/chat' } }] }
  }
  stalls.look(state, 0)
  other.downloadProgress.downloaded++
  t.strictSame(stalls.look(state, STALL_SECONDS * 1000), [])
  t.equal(stalls.look(state, 2 * STALL_SECONDS * 1000).length, 1, 'unless nothing moves at all')
  t.end()
})

t.test('a large model is given the time that it takes', (t) => {
  const one = instance('a', ['id-n1', 'id-n2'], {}, 'acme/chat', 10 * GIB)
  const limit = 2 * 10 * GIB / SLOWEST_BYTES_PER_SECOND * 1000
  const stalls = new Stalls()
  const [first, second] = Object.keys(bodyOf(one).shardAssignments.runnerToShard)
  const transfer = { modelId: 'acme/chat', downloadProgress: { downloaded: 1 } }
  const state = {
    instances: { a: one }, runners: { [first!]: { RunnerReady: {} }, [second!]: { RunnerIdle: {} } },
    downloads: { 'id-n2': [{ DownloadOngoing: transfer }] }
  }
  t.strictSame([stalls.look(state, 0), stalls.look(state, limit - 1)], [[], []])
  t.match(stalls.look(state, limit), [{ instanceId: 'a', modelId: 'acme/chat', nodeIds: ['id-n2'] }])
  transfer.downloadProgress.downloaded++
  t.strictSame(stalls.look(state, limit + 1), [], 'bytes came')
  t.equal(stalls.look(state, 2 * limit + 1).length, 1)
  state.runners[second!] = { RunnerRunning: {} } as never
  t.strictSame(stalls.look(state, 9 * limit), [], 'it serves')
  state.runners[second!] = { RunnerWarmingUp: {} } as never
  const warm = 9 * limit + 1
  t.strictSame(stalls.look(state, warm), [])
  t.strictSame(stalls.look(state, warm + WARMUP_SECONDS * 1000 - 1), [], 'a warmup shows no progress')
  t.equal(stalls.look(state, warm + WARMUP_SECONDS * 1000).length, 1)
  t.end()
})

t.test('what is placed by itself is spread where no node holds it alone', async (t) => {
  const cards = [card('acme/star', { engine: 'star', totalBytes: 20 * GIB })]
  const rig = await startKeeper(t, { nodes: { n1: 40, n2: 40 }, cards, config: { autoplace: ['acme/star'] } })
  await passes(rig, 'the placement', () => rig.placed.length === 1)
  t.ok('LlamaRpcInstance' in rig.placed[0]!.instance)
})

t.test('what is placed by itself', async (t) => {
  const rig = await startKeeper(t, { config: { autoplace: ['acme/chat', 'acme/unknown'] } })
  await passes(rig, 'the placement', () => rig.placed.length === 1)
  t.match(bodyOf(rig.placed[0]!.instance).placement, { origin: 'autoplace' })
  await rig.clock.advance(10_000)
  t.equal(rig.placed.length, 1, 'once')
  const [id, ...others] = Object.entries(await waiting(rig))
  t.match([id?.[1], others], [{ modelId: 'acme/unknown', reason: 'model_unknown', origin: 'autoplace' }, []])
  const ready = async (): Promise<{ status: number, detail: string }> => {
    const answer = await rig.inject({ url: '/readyz' })
    const body = answer.json() as { checks?: Check[], error?: { details: { checks: Check[] } } }
    const checks = body.checks ?? body.error!.details.checks
    return { status: answer.statusCode, detail: checks.find(({ name }) => name === 'placement')!.detail }
  }
  t.match(await ready(), { status: 503,
    detail: 'acme/chat: its runner is starting (RunnerIdle); acme/unknown: No model is called acme/unknown' })
  runnersAre(rig.state, ids(rig)[0]!, { RunnerReady: {} })
  t.match(await ready(), { status: 503, detail: /^acme\/unknown: .*\(model_unknown\)$/ })
  const stopped = rig.inject({ method: 'DELETE', url: `/instance/${id![0]}` })
  await passes(rig, 'the end of waiting', () => true)
  await rig.clock.advance(500)
  t.equal((await stopped).statusCode, 200)
  await rig.clock.advance(10_000)
  t.strictSame(await waiting(rig), {}, 'an operator stopped it')
  t.strictSame(await ready(), { status: 200, detail: 'ready: acme/chat' })
})
interface Check { name: string, detail: string }

t.test('a model that comes with a plugin is placed by itself where nothing else is said', async (t) => {
  const rig = await startKeeper(t, { config: {} })
  t.strictSame(rig.placed, [], 'none comes here')
  const answer = await rig.inject({ url: '/readyz' })
  t.match(answer.body, /no model is placed automatically/)
})

t.test('the master enters what takes a place only while it waits for one', async (t) => {
  const rig = await startKeeper(t)
  const taking = instance('b', ['id-n1'], { placement: intent({ replaces: 'a' }) })
  const entering = (): void => { rig.check({ instance: taking, instances: [] }) }
  t.throws(entering, { reason: 'not_waiting' } as never)
})

t.test('memory that is being given back counts as free', async (t) => {
  const rig = await startKeeper(t, { nodes: { n1: 64 } })
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = GIB
  const url = '/instance/placement?model_id=acme/chat'
  t.match((await rig.ask('GET', url)).body.error, { reason: 'insufficient_memory' })
  rig.releasing.push({ instance: instance('old', ['id-n1'], {}, 'acme/chat', 60 * GIB), nodeIds: ['id-n1'] })
  t.match((await rig.ask('GET', url)).status, 200)
})

t.test('while all is as it is to be the state is not read', async (t) => {
  const rig = await startKeeper(t, { config: { autoplace: ['acme/chat'] } })
  await passes(rig, 'its place', () => rig.placed.length === 1)
  const id = ids(rig)[0]!
  const reads = async (ms: number): Promise<number> => {
    const before = rig.reads
    await rig.rest(ms)
    return rig.reads - before
  }
  t.ok(await reads(10_000) >= 9, 'while it starts')
  runnersAre(rig.state, id, { RunnerReady: {} })
  await rig.clock.advance(3000)
  t.equal(await reads(60_000), 0, 'a master that is idle')
  rig.changed()
  t.equal(await reads(60_000), 1, 'once after a change')
  rig.views[1] = nodeView('n2', { live: false })
  t.ok(await reads(10_000) > 0, 'while a node may be lost')
  t.equal(await reads(60_000), 0)
  runnersAre(rig.state, id, { RunnerFailed: { errorMessage: 'x' } })
  t.equal(await reads(10_000), 0, 'nobody said so')
  rig.changed()
  t.ok(await reads(10_000) >= 9)
})
