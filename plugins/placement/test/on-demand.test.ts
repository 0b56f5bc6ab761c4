import t from 'tap'
import { kernelError, type Caller } from '../../../kernel/index.js'
import { bodyOf, type RouteQuery } from '../../runners/service.js'
import { card, GIB, runnersAre, startPlacement, until, type Options, type PlacementRig } from './kit.js'
import { instance, intent } from './keeper-kit.js'

const caller = { id: 'local' } as unknown as Caller
const ON = { on_demand: true }

async function start (t: Parameters<typeof startPlacement>[0], more: Options = {}): Promise<PlacementRig> {
  return await startPlacement(t, { config: ON, ...more })
}

async function ask (
  rig: PlacementRig, over: Partial<RouteQuery> = {}
): Promise<{ served: boolean } | { error: unknown }> {
  const query = { modelId: 'acme/chat', capability: 'chat', commandId: 'c', caller, ...over }
  return await rig.missing!(query).then((served) => ({ served }), (error: unknown) => ({ error }))
}

const only = (rig: PlacementRig): string => bodyOf(rig.placed[0]!.instance).instanceId

t.test('on_demand is off unless it is set', async (t) => {
  const rig = await startPlacement(t)
  t.strictSame(await ask(rig), { served: false })
  await rig.decide('policy', { modelId: 'acme/chat', patch: { demand: true }, from: 'request' })
  void ask(rig)
  await until(() => rig.placed.length === 1)
  const on = await start(t)
  await on.decide('policy', { modelId: 'acme/chat', patch: { demand: false }, from: 'request' })
  t.strictSame(await ask(on), { served: false }, 'the policy of a model counts first')
})

t.test('a request places the model and waits until it is ready', async (t) => {
  const rig = await start(t, { config: { ...ON, on_demand_ttl_seconds: 60 } })
  const [first, second] = [ask(rig), ask(rig)]
  await until(() => rig.placed.length > 0)
  const third = ask(rig)
  t.match(bodyOf(rig.placed[0]!.instance).placement,
    { origin: 'on_demand', ttlSeconds: 60, minNodes: 1, excluded: [] })
  runnersAre(rig.state, only(rig), { RunnerLoading: { layersLoaded: 1, totalLayers: 2 } })
  await rig.clock.advance(10_000)
  runnersAre(rig.state, only(rig), { RunnerReady: {} })
  await rig.clock.advance(500)
  const served = { served: true }
  t.strictSame(await Promise.all([first, second, third]), [served, served, served])
  t.equal(rig.placed.length, 1, 'they share one placement')
  rig.state.instances = {}
  void ask(rig)
  await until(() => rig.placed.length === 2)
  t.pass('one that is gone is placed again')
})

t.test('what cannot be placed is told to the request', async (t) => {
  const rig = await start(t, { nodes: { n1: 4 }, cards: [card('acme/chat')] })
  t.match(await ask(rig), { error: { reason: 'insufficient_memory', details: { nodes: [{ name: 'n1' }] } } })
  t.strictSame(await ask(rig, { modelId: 'acme/none' }), { served: false })
  t.strictSame(rig.placed, [])
  rig.state.nodeMemory['id-n1']!.ramTotal.inBytes = 64 * GIB
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = 32 * GIB
  void ask(rig)
  await until(() => rig.placed.length === 1)
  t.pass('a refusal is not remembered')
})

t.test('while a model is being unloaded its memory is waited for', async (t) => {
  const rig = await start(t, { nodes: { n1: 40 } })
  const full = (): void => { rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = GIB }
  const unload = (): void => {
    full()
    const leaving = { drainUntil: '2026-01-01T00:00:30.000Z' }
    rig.state.instances['old'] = instance('old', ['id-n1'], leaving, 'acme/old', 200 * GIB)
    runnersAre(rig.state, 'old', { RunnerReady: {} })
  }
  unload()
  let refused: unknown
  void ask(rig).then((outcome) => { refused = outcome })
  await rig.clock.advance(10_000)
  delete rig.state.instances['old']
  await rig.clock.advance(1000)
  t.strictSame([refused, rig.placed], [undefined, []], 'the readings still show it')
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = 20 * GIB
  await rig.clock.advance(500)
  t.equal(rig.placed.length, 1)
  rig.state.instances = {}
  unload()
  const asked = ask(rig)
  await rig.clock.advance(1000)
  delete rig.state.instances['old']
  await rig.clock.advance(5500)
  t.match(await asked, { error: { reason: 'insufficient_memory' } }, 'somebody else has it')
})

/** Adds a ready instance of 200 GiB on n1. */
function load (rig: PlacementRig, id: string, idleSeconds: number | null, ttlSeconds: number | null): void {
  const placement = intent({ ttlSeconds })
  rig.state.instances[id] = instance(id, ['id-n1'], { placement }, `acme/${id}`, 200 * GIB)
  runnersAre(rig.state, id, { RunnerReady: {} })
  const { runnerMemory = {} } = (rig.state.nodeSystem['id-n1'] ?? {}) as { runnerMemory?: object }
  rig.state.nodeSystem['id-n1'] = {
    accelerators: [], runnerMemory: { ...runnerMemory, [`${id}-r0`]: { idleSeconds } }
  } as never
}

t.test('idle instances make room; those without a time to live and those in use do not', async (t) => {
  const rig = await start(t, { nodes: { n1: 40 }, config: { ...ON, wait_seconds: 60 } })
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = GIB
  load(rig, 'pinned', 999, null)
  t.match(await ask(rig), { error: { reason: 'insufficient_memory' } })
  load(rig, 'used', null, 300)
  const waits: unknown[] = []
  const late = ask(rig, { onWait: (wait) => { waits.push(wait) } })
  await rig.clock.advance(59_000)
  t.ok(waits.length > 20, 'the request is told')
  t.match(waits, waits.map(() => ({ percent: null, expectedSeconds: null })))
  await rig.clock.advance(2000)
  t.match(await late, { error: { reason: 'not_ready', status: 503, message: /waits for memory/ } })
  t.strictSame(rig.evicted, [], 'one in use stays')
  load(rig, 'idle', 20, 300)
  load(rig, 'spare', 10, 300)
  const [first, second] = [ask(rig), ask(rig)]
  await rig.clock.advance(600)
  t.strictSame(rig.evicted.splice(0), ['idle for acme/chat'])
  delete rig.state.instances['idle']
  await rig.clock.advance(3000)
  t.strictSame([rig.evicted, rig.placed], [[], []], 'nothing else goes while readings are old')
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = 20 * GIB
  await rig.clock.advance(600)
  t.equal(rig.placed.length, 1, 'one load for all requests')
  runnersAre(rig.state, only(rig), { RunnerLoading: { layersLoaded: 1, totalLayers: 4 } })
  void ask(rig, { onWait: (wait) => { waits.push(wait) } })
  waits.length = 0
  await rig.clock.advance(4000)
  t.match(waits[0], { percent: 25, expectedSeconds: Number })
  runnersAre(rig.state, only(rig), { RunnerReady: {} })
  await rig.clock.advance(500)
  t.strictSame(await Promise.all([first, second]), [{ served: true }, { served: true }])
})

t.test('requests that wait for the same model share one plan', async (t) => {
  const rig = await start(t, { nodes: { n1: 40 } })
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = GIB
  load(rig, 'idle', 20, 300)
  await rig.decide('wait', { id: 'lost', entry: {
    modelId: 'acme/chat', intent: intent(), replaces: null, since: '', message: 'm',
    reason: 'insufficient_memory'
  } })
  for (let n = 0; n < 20; n++) void ask(rig)
  await rig.clock.advance(1000)
  t.ok(rig.evicted.length >= 2 && rig.evicted.length <= 5, `${rig.evicted.length} plans in a second`)
})

t.test('nothing is unloaded for requests that are gone', async (t) => {
  for (const left of [0, 1]) {
    const rig = await start(t, { nodes: { n1: 40 } })
    rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = GIB
    load(rig, 'used', null, 300)
    const [first, second] = [new AbortController(), new AbortController()]
    const asked = [ask(rig, { signal: first.signal }), ask(rig, { signal: second.signal })]
    await rig.clock.advance(1000)
    first.abort()
    if (left === 0) second.abort()
    t.match(await asked[0], { error: { reason: 'cancelled' } })
    load(rig, 'idle', 20, 300)
    await rig.clock.advance(1000)
    t.strictSame(rig.evicted, left === 0 ? [] : ['idle for acme/chat'], `${left} waits`)
    rig.evicted.length = 0
    void ask(rig)
    await rig.clock.advance(6000)
    t.strictSame(rig.evicted.slice(0, 1), ['idle for acme/chat'], 'it is loaded for the next one')
  }
})

t.test('an instance that ends after long requests does not keep idle ones loaded', async (t) => {
  const rig = await start(t, { nodes: { n1: 40 } })
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = GIB
  load(rig, 'long', null, 300)
  bodyOf(rig.state.instances['long']!).drainUntil = '2026-01-01T01:00:00.000Z'
  runnersAre(rig.state, 'long', { RunnerRunning: {} })
  load(rig, 'idle', 20, 300)
  load(rig, 'spare', 10, 300)
  void ask(rig)
  await rig.clock.advance(600)
  t.strictSame(rig.evicted.splice(0), ['idle for acme/chat'])
  delete rig.state.instances['idle']
  await rig.clock.advance(3000)
  t.strictSame([rig.evicted, rig.placed], [[], []], 'nothing else goes while readings are old')
  rig.state.nodeMemory['id-n1']!.ramAvailable.inBytes = 20 * GIB
  await rig.clock.advance(600)
  t.equal(rig.placed.length, 1)
})

t.test('an instance that is lost while a request waits is placed again; a stopped one is not', async (t) => {
  const rig = await start(t)
  const asked = ask(rig)
  await until(() => rig.placed.length > 0)
  await rig.clock.advance(1000)
  rig.state.instances = {}
  await rig.clock.advance(1000)
  t.equal(rig.placed.length, 2)
  await rig.decide('stop', { modelId: 'acme/chat', since: '' })
  rig.state.instances = {}
  await rig.clock.advance(1000)
  t.strictSame(await asked, { served: false })
  t.equal(rig.placed.length, 2)
})

t.test('still loading at the deadline: 503, and it goes on loading', async (t) => {
  const rig = await start(t)
  const deadline = new AbortController()
  const answer = ask(rig, { signal: deadline.signal })
  await until(() => rig.placed.length > 0)
  await rig.clock.advance(1000)
  deadline.abort(kernelError('timeout'))
  t.match(await answer, { error: { reason: 'not_ready', status: 503, retryAfterSeconds: 2 } })
  t.ok(rig.state.instances[only(rig)])

  const gone = new AbortController()
  const left = ask(rig, { signal: gone.signal })
  gone.abort()
  t.match(await left, { error: { reason: 'cancelled' } })
  t.match(await ask(rig, { signal: gone.signal }), { error: { reason: 'cancelled' } }, 'gone before it began')

  const patient = ask(rig)
  await rig.clock.advance(121_000)
  t.match(await patient, { error: { reason: 'not_ready' } }, 'no request waits for ever')
  t.equal(rig.placed.length, 1)
})

t.test('a model that waits for a node already is waited for', async (t) => {
  const rig = await start(t)
  await rig.decide('wait', { id: 'lost', entry: {
    modelId: 'acme/chat', intent: intent(), replaces: null, since: '', reason: 'x', message: 'm'
  } })
  const answer = ask(rig)
  await rig.clock.advance(6000)
  t.strictSame(rig.placed, [])
  const deadline = new AbortController()
  deadline.abort(kernelError('timeout'))
  t.match(await ask(rig, { signal: deadline.signal }), { error: { reason: 'not_ready' } })
  await rig.clock.advance(120_000)
  t.match(await answer, { error: { reason: 'not_ready', message: /it waits for a node: m/ } })
})
