import t from 'tap'
import type { NodeView } from '../../../kernel/index.js'
import { fake, type Fake, type TestContext } from '../../../kernel/testing/index.js'
import { ModelsService, type AvailabilityReader, type ModelCopy, type Models } from '../../staging/service.js'
import { PlacedInstances } from '../instances/document.js'
import { Availability, type AvailabilityParts } from '../routing/availability.js'
import type { Member } from '../instances/runner-set.js'
import { InstanceService, RunnersService, type RunnerStatus } from '../service.js'
import { bodyOf } from '../instances/shapes.js'
import type { Instance } from '../instances/sections.js'
import { ensure, startRunners, until, type RunnersRig } from './rig.js'
import { card, soloInstance } from './samples.js'

const VOICE = 'svc/voice-en'
const OTHER = 'acme/other'
const caller = { id: 'test', mode: 'direct', authorities: new Set(['invoke']) } as const

interface Answer {
  available: boolean
  broken_link: string | null
  message: string | null
  remedy: string | null
  links: { link: string, ok: boolean | null, message: string }[]
}

async function ask (rig: RunnersRig, modelId: string): Promise<Answer> {
  const answer = await rig.inject({ url: `/models/${modelId}/availability` })
  t.equal(answer.statusCode, 200, answer.body)
  return answer.json<Answer>()
}

const node = (name: string, over: Partial<NodeView> = {}): NodeView => ({
  nodeId: `id-${name}`, installId: `install-${name}`, name, self: false, live: true, master: false,
  apiUrl: null, ...over
})

/** The availability of models when other nodes have these copies. */
function others (copies: ModelCopy[]): { fakes: Fake[], judge: () => AvailabilityReader } {
  let judge: AvailabilityReader | undefined
  const bundled: ModelCopy[] = [{ ...copy('n2'), kind: 'bundled' }]
  const models: Partial<Models> = {
    opened: Promise.resolve(), locate: () => undefined, located: () => [],
    card: (modelId) => modelId === OTHER ? card(OTHER) : undefined,
    cards: () => [{ card: card(OTHER), origin: 'store' }],
    copies: (modelId) => modelId === OTHER ? copies : bundled,
    allCopies: () => new Map([[OTHER, copies], [VOICE, bundled]]),
    silentStore: () => undefined,
    placed: () => () => {},
    virtual: () => () => {},
    judge (fn) {
      judge = fn
      return () => {}
    },
    serving () {}, digest: () => null, use: () => () => {}
  }
  return { fakes: [fake(ModelsService, models)], judge: () => judge! }
}

const copy = (name: string, over: Partial<ModelCopy> = {}): ModelCopy =>
  ({ nodeId: `id-${name}`, nodeName: name, kind: 'staged', live: true, ...over })

async function start (
  t: TestContext, copies: ModelCopy[]
): Promise<{ rig: RunnersRig, judge: AvailabilityReader }> {
  const { fakes, judge } = others(copies)
  const rig = await startRunners(t, { fakes, place: [] })
  return { rig, judge: judge() }
}

t.test('GET /models/{id}/availability goes from the card to an answer', async (t) => {
  const rig = await startRunners(t)
  const runner = await rig.runner(VOICE)
  t.match(await ask(rig, VOICE), {
    available: false, broken_link: 'runner', message: /is starting/, remedy: /svc ps/,
    links: [
      { link: 'card', ok: true }, { link: 'copy' }, { link: 'backend' }, { link: 'placement', ok: true },
      { link: 'runner', ok: false }, { link: 'request', ok: null }
    ]
  })
  runner.ready()
  t.match(await ask(rig, VOICE), { available: true, broken_link: null, message: null, remedy: null })
  runner.giveUp('no library')
  t.match(await ask(rig, VOICE),
    { broken_link: 'runner', message: /given up: no library/, remedy: /svc stop [0-9a-f-]{36}/ })
  t.match(await ask(rig, 'acme/none'),
    { broken_link: 'card', message: /no model is called acme\/none/, remedy: new RegExp(VOICE) })
})

t.test('what other nodes have counts', async (t) => {
  const { rig, judge } = await start(t, [copy('n3', { live: false })])
  t.match(await ask(rig, OTHER), { broken_link: 'copy', message: /its files are only on n3/ })
  await t.rejects(
    rig.service(RunnersService).route({ modelId: OTHER, capability: 'tts', commandId: 'C', caller }),
    { reason: 'no_instance', message: /its files are only on n3/, details: { brokenLink: 'copy' } },
    'a refused request is told the same')
  t.match(await ask(rig, VOICE), { broken_link: 'placement', links: [{}, { message: 'on n2' }] })
  t.match((await judge())(OTHER), { available: false, brokenLink: 'copy', remedy: /svc pull/ })
})

t.test('a transfer, and a model that waits for a node', async (t) => {
  const { rig } = await start(t, [copy('n2', { kind: 'receiving' })])
  t.match(await ask(rig, OTHER), { broken_link: 'copy', message: /being transferred/ })
  const { rig: waits } = await start(t, [copy('n2')])
  const stop = waits.service(InstanceService).onAbsent((modelId) =>
    modelId === OTHER
      ? { code: 'waiting_for_node', problem: 'it waits for a node: too small', remedy: 'R', waits: true }
      : null)
  t.match(await ask(waits, OTHER),
    { broken_link: 'placement', message: 'it waits for a node: too small', remedy: 'R' })
  stop()
  t.match(await ask(waits, OTHER), { broken_link: 'placement', message: 'it is not placed on any node' })
})

t.test('a ready model is judged available', async (t) => {
  const { rig, judge } = await start(t, [])
  void ensure(rig, VOICE)
  const runner = await rig.runner(VOICE)
  runner.ready()
  await until(() => runner.status)
  t.strictSame((await judge())(VOICE), { available: true, brokenLink: null, remedy: null, wanted: true })
})

/** A node that runs no model and has no reports from other nodes. */
const nothing = {
  self: { nodeId: 'id-n1', installId: 'install-n1' },
  state: undefined,
  fleet: { get: () => undefined, status: (): RunnerStatus => ({ RunnerIdle: {} }) },
  tasks: { outstanding: () => 0 },
  remoteTasks: { outstanding: () => 0 },
  gossip: { load: () => null },
  off: () => undefined,
  absence: () => null,
  learning: () => false
}

t.test('a thousand models are judged by what is read once', async (t) => {
  const counts: Record<string, number> = {}
  const once = <T>(name: string, value: T) => (): T => {
    counts[name] = (counts[name] ?? 0) + 1
    return value
  }
  const ids = Array.from({ length: 1000 }, (_, i) => `acme/m${i}`)
  const row = (id: string) => {
    const at = { instanceId: `i-${id}`, runnerId: `r-${id}`, nodeId: 'id-n2' }
    return { key: id, nodeId: 'id-n2', value: soloInstance(at, card(id)) }
  }
  const { chains } = new Availability({
    ...nothing,
    bundle: {
      model: () => undefined, models: once('models', []), engine: () => undefined, engines: () => [],
      cardReaders: () => []
    },
    models: {
      card,
      copies: () => { throw new Error('asked model by model') },
      allCopies: once('copies', new Map(ids.map((id) => [id, [copy('n2')]]))),
      silentStore: () => undefined
    },
    cluster: { nodes: once('nodes', [node('n2')]) },
    state: { read: async () => once('state', {})() } as never,
    placed: new PlacedInstances(
      { entries: once('instances', ids.map(row)), observe: () => () => {} } as never, 'id-n1'),
    sections: {
      runners: { get: () => ({ RunnerReady: {} }) },
      failures: { entries: once('failures', []) }
    } as never,
    backend: () => null
  })
  const chain = await chains()
  t.ok(ids.every((id) => chain(id, null).broken === null))
  t.strictSame(counts,
    { copies: 1, nodes: 1, state: 1, instances: 1, failures: 1 })
})

t.test('a backend or an instance on another live node will do', async (t) => {
  const nodes = [node('n1', { self: true }), node('n2'), node('n3', { live: false })]
  const rows = <V>(...values: V[]): never =>
    ({
      get: () => undefined, observe: () => () => {},
      entries: () => values.map((value, i) => ({ key: `k${i}`, nodeId: 'id-n2', value }))
    }) as never
  const instance = (name: string, drainUntil?: string): Instance => {
    const ids = { instanceId: `i-${name}`, runnerId: `r-${name}`, nodeId: `id-${name}` }
    const ring = bodyOf(soloInstance(ids, card(VOICE)))
    return { RingInstance: { ...ring, ...drainUntil === undefined ? {} : { drainUntil } } }
  }
  const broken = async (
    instances: Instance[], backends: Record<string, { backends: string[], engines?: object }>,
    over: Partial<AvailabilityParts> = {}
  ): Promise<string> => {
    const { chains } = new Availability({
      ...nothing,
      bundle: {
        model: () => ({ card: card(VOICE), directory: '' }), models: () => [],
        engine: () =>
          ({ name: 'onnx-tts', owner: 'x', decl: { summary: '', module: '', backends: ['cuda', 'cpu'] } }),
        engines: () => [], cardReaders: () => []
      },
      cluster: { nodes: () => nodes },
      state: { read: async () => ({ nodeResources: backends }) } as never,
      placed: new PlacedInstances(rows(...instances), 'id-n1'),
      sections: { runners: rows(), failures: rows() },
      backend: () => ({ backend: null, problem: 'no cuda', remedy: 'R' }),
      ...over
    })
    return (await chains())(VOICE, null).broken?.message ?? ''
  }
  t.equal(await broken([], {}), 'no cuda')
  t.equal(await broken([], { 'id-n3': { backends: ['cpu'] } }), 'no cuda', 'that one is not there')
  t.equal(await broken([], { 'id-n2': { backends: ['webgpu'] } }), 'no cuda', 'that is none of the engine')
  t.equal(await broken([], { 'id-n2': { backends: ['cpu'] } }), 'it is not placed on any node')
  const seeing = { ...card(VOICE), files: [{ path: 'mmproj.gguf', role: 'vision_weights', bytes: 1 }] }
  const otherwise = { name: 'the library', module: '', backends: ['cpu'], packages: {},
    without: { vision_weights: 'takes no images' } }
  const decl = { summary: '', module: '', backends: ['cpu'], program: { name: 'x', builds: 'x', otherwise } }
  const withImages = { bundle: {
    model: () => ({ card: seeing, directory: '' }), models: () => [],
    engine: () => ({ name: 'onnx-tts', owner: 'x', decl }), engines: () => [], cardReaders: () => []
  } }
  for (const [from, problem] of [['library', 'no cuda'], ['path', 'it is not placed on any node']] as const) {
    const there = { 'id-n2': { backends: ['cpu'], engines: { 'onnx-tts': { from } } } }
    t.equal(await broken([], there, withImages), problem, `images on ${from}`)
  }
  t.equal(await broken([instance('n2')], {}), 'its runner has not started yet')
  t.match(await broken([instance('n2', '2030-01-01T00:00:00Z')], {}), /being stopped/)
  const fleet = {
    get: (runnerId: string) => runnerId === 'r-n1' ? {} as Member : undefined,
    status: (): RunnerStatus => ({ RunnerReady: {} })
  }
  const here = { backend: () => ({ backend: 'cpu', declared: false }), fleet }
  t.equal(await broken([instance('n2'), instance('n1')], {}, here), '', 'the one that is furthest counts')
  t.match(await broken([instance('n2'), instance('n1', '2030-01-01T00:00:00Z')], {}, here), /not started/,
    'unless it is being stopped')
  const failed = { instanceId: 'i-n3', errorCode: 'load_failed', errorMessage: 'no memory' }
  const live = { cluster: { nodes: () => nodes.map((one) => ({ ...one, live: true })) } }
  const given = { ...live, sections: { runners: rows(), failures: rows(failed) } }
  t.match(await broken([instance('n3')], {}, given), /no memory/)
  t.match(await broken([instance('n3'), instance('n2')], {}, given), /not started/,
    'one that may still come counts more than one that was given up')
  const asked = new Availability({
    ...nothing, bundle: { model: () => ({ card: card(VOICE), directory: '' }), engine () {} } as never,
    cluster: { nodes: () => nodes }, placed: new PlacedInstances(rows(instance('n1')), 'id-n1'),
    sections: { runners: rows(), failures: rows() }, fleet,
    backend () { throw new Error('the disk is looked at for a request that can be served') }
  })
  t.equal(asked.broken(VOICE, null), null)
  const unreadable = { bundle: { model () { throw new Error('nLayers') }, models: () => [] } as never }
  t.equal(await broken([], {}, unreadable), 'its card cannot be read: nLayers')
})

t.test('a model whose card is away with its store is judged by its instance', async (t) => {
  const ids = { instanceId: 'i', runnerId: 'r', nodeId: 'id-n2' }
  const instances = [{ key: 'i', nodeId: 'id-n2', value: soloInstance(ids, card(OTHER)) }]
  const { chains } = new Availability({
    ...nothing,
    bundle: { model: () => undefined, models: () => [], engine: () => undefined, engines: () => [],
      cardReaders: () => [] },
    cluster: { nodes: () => [node('n2')] },
    placed: new PlacedInstances({ entries: () => instances, observe: () => () => {} } as never, 'id-n1'),
    sections: { runners: { get: () => ({ RunnerReady: {} }) }, failures: { entries: () => [] } } as never,
    backend: () => null
  })
  t.equal((await chains())(OTHER, 'tts').broken, null)
})

t.test('the load of a runner counts the work of all nodes', async (t) => {
  const away = new Map([['r-n2', 2], ['r-n3', 0], ['r-n4', 3]])
  const said = new Map([['r-n2', 5], ['r-n3', 0]])
  const availability = new Availability({
    ...nothing, tasks: { outstanding: () => 7 },
    remoteTasks: { outstanding: (id: string) => away.get(id) ?? 0 },
    gossip: { load: (_: string, id: string) => said.get(id) ?? null }
  } as never)
  const at = (name: string, own = false, status: RunnerStatus = { RunnerReady: {} }, serving = true) => ({
    nodeId: `id-${name}`, installId: `install-${name}`, instanceId: 'i', runnerId: `r-${name}`,
    modelId: VOICE, own, status, serving
  })
  const busy: RunnerStatus = { RunnerRunning: {} }
  const runners = [
    at('n1', true), at('n2'), at('n3', false, busy), at('n4', false, busy), at('n5', false, busy),
    at('n6', false, busy, false)
  ]
  t.same(availability.candidates({ instances: [], runners }).map(({ runnerId, load }) => [runnerId, load]), [
    ['r-n1', 7], ['r-n2', 7], ['r-n3', 0], ['r-n4', 3], ['r-n5', 1]
  ])
})

t.test('a node that lends its memory to an instance serves no requests', async (t) => {
  const nodeToRunner = { 'id-n2': 'r-n2', 'id-n3': 'r-n3' }
  const ring = bodyOf(soloInstance({ instanceId: 'i', runnerId: 'r-n2', nodeId: 'id-n2' }, card(VOICE)))
  const value = { LlamaRpcInstance: {
    ...ring, driverNode: 'id-n2', shardAssignments: { ...ring.shardAssignments, nodeToRunner }
  } }
  const rows = { entries: () => [{ key: 'i', nodeId: 'id-n2', value }], observe: () => () => {} } as never
  const availability = new Availability({
    ...nothing, cluster: { nodes: () => [node('n2'), node('n3')] },
    placed: new PlacedInstances(rows, 'id-n1'),
    sections: { runners: { get: () => ({ RunnerReady: {} }) }, failures: { entries: () => [] } } as never
  } as never)
  t.same(availability.snapshot(VOICE).runners.map(({ nodeId, serving }) => [nodeId, serving]),
    [['id-n2', true], ['id-n3', false]])
})
