import t from 'tap'
import { USUAL_CONTEXT } from '../../runners/cards/memory-forecast.js'
import { plan } from '../planner/index.js'
import type { ClusterView, MemoryClaim, NodeFacts, PlanRequest, RefusalReason } from '../planner/types.js'
import { GIB, MASK, card, links, lm, mesh, node, planned, refused, request, view } from './planner-kit.js'

const rpc = { ...lm, meta: 'LlamaRpc', overhead: 1.1 } as const
const onLibrary = { ...lm, builds: 'lm.cpp', library: {
  name: 'the lib', module: 'file:///lib.js', backends: ['cpu'], packages: {},
  without: { vision_weights: 'takes no images' }
} } as const
const three = [node('a', 50), node('b', 50), node('c', 50)]
const heads = { supportsTensor: true, heads: 32, kvHeads: 8, headSize: 128 }

function claim (nodeId: string, bytes: number): MemoryClaim {
  return { nodeId, backend: 'cpu', bytes }
}

interface Row {
  what: string
  request?: Partial<PlanRequest>
  view: ClusterView
  reason: RefusalReason
  message: RegExp
  suggestions?: string[]
}

const rows: Row[] = [{
  what: 'the model cannot be cut across its layers',
  request: { sharding: 'Tensor', minNodes: 2 },
  view: view(three),
  reason: 'tensor_unsupported',
  message: /^Model acme\/x does not support Tensor sharding\. It can be placed if you set sharding to Pipel/,
  suggestions: ['set sharding to Pipeline']
}, {
  what: 'the engine cannot, also where one node would do',
  request: { sharding: 'Tensor', card: card(heads) },
  view: view(three, { engines: { lm: { ...lm, tensor: false } } }),
  reason: 'tensor_unsupported',
  message: /^Engine lm does not support Tensor sharding\./
}, {
  what: 'fewer layers than nodes',
  request: { card: card({ nLayers: 2 }), minNodes: 3 },
  view: view(three),
  reason: 'too_few_layers',
  message: /has 2 layers, too few for 3 nodes: every node of a Pipeline holds at least one\./,
  suggestions: ['set min_nodes to 2']
}, {
  what: 'an engine nobody brings',
  view: view(three, { engines: {} }),
  reason: 'no_backend',
  message: /needs engine lm, which no enabled plugin provides\.$/
}, {
  what: 'a card that the engine refuses',
  view: view(three, { engines: { lm: { ...lm, refuses: ({ modelId }) => `${modelId} is odd` } } }),
  reason: 'no_backend',
  message: /^acme\/x is odd$/
}, {
  what: 'an engine named like a part of every object',
  request: { card: card({ engine: 'constructor' }) },
  view: view(three),
  reason: 'no_backend',
  message: /needs engine constructor, which no enabled plugin provides\.$/
}, {
  what: 'no node has a backend of the model',
  request: { card: card({ backends: ['cuda'] }) },
  view: view(three),
  reason: 'no_backend',
  message: /^No node can run acme\/x: engine lm needs one of cuda\.$/
}, {
  what: 'no node has the program of the engine',
  view: view(three.map((one) => ({ ...one, lacks: ['lm'] })),
    { engines: { lm: { ...lm, builds: 'lm.cpp' } } }),
  reason: 'engine_missing',
  message: /^Model acme\/x runs on lm\.cpp, which is not installed on a, b, c: run `svc/
}, {
  what: 'the library in place of the program cannot run it',
  request: { card: card({ files: [{ path: 'eyes.gguf', role: 'vision_weights', bytes: 1 }] }) },
  view: view(three.map((one) => ({ ...one, onLibrary: ['lm'] })), { engines: { lm: onLibrary } }),
  reason: 'engine_missing',
  message: new RegExp('^Model acme/x runs on lm\\.cpp itself \\(the lib takes no images\\), ' +
    'which is not installed on a, b, c: run `svc')
}, {
  what: 'too few nodes have the program that shares a model',
  request: { minNodes: 2, instanceMeta: 'LlamaRpc' },
  view: view(three.map((one, i) => ({ ...one, onLibrary: i > 0 ? ['lm'] : [] })),
    { engines: { lm: { ...onLibrary, ...rpc } } }),
  reason: 'engine_missing',
  message: new RegExp('^Sharing a model with other nodes for min_nodes 2 requires lm\\.cpp itself, ' +
    'which is not installed on b, c: run `svc')
}, {
  what: 'only management nodes',
  view: view([node('a', 50, { participation: 'management' })]),
  reason: 'no_backend',
  message: /^No node runs models, so acme\/x cannot be placed\.$/
}, {
  what: 'no node at all',
  view: view([]),
  reason: 'no_backend',
  message: /^No node runs models/
}, {
  what: 'everyone is excluded, by either id',
  request: { excluded: ['a', 'install-b', 'c', 'nobody'] },
  view: view(three),
  reason: 'exclusions_removed_all',
  message: /^Model acme\/x may not be placed on a, b, c \(.* no other .* can run it\. It can be placed if/,
  suggestions: ['no longer exclude a']
}, {
  what: 'the last that has the backend is excluded',
  request: { excluded: ['b'] },
  view: view([node('a', 50, { backends: { other: ['cpu'] } }), node('b', 50)]),
  reason: 'exclusions_removed_all',
  message: /on b \(/
}, {
  what: 'everyone that could is drained',
  view: view(three.map((one) => ({ ...one, drained: true }))),
  reason: 'nodes_drained',
  message: /can run acme\/x is drained: a, b, c\. It can be placed if you undrain a\./,
  suggestions: ['undrain a']
}, {
  what: 'one that is not drained has too little memory',
  view: view([node('a', 1), node('b', 50, { drained: true })]),
  reason: 'insufficient_memory',
  message: /undrain b\.$/,
  suggestions: ['undrain b', 'free 12.26 GiB of memory on a']
}, {
  what: 'a node that has not told its memory could do it',
  view: view([node('a', 1), node('b', 0, { memory: null })]),
  reason: 'info_pending',
  message: /^Waiting for b to report what it has; retry in a few seconds\.$/,
  suggestions: []
}, {
  what: 'nodes that have told nothing',
  view: view([
    node('a', 0, { memory: null, backends: null, participation: null }),
    node('b', 50, { backends: null })
  ]),
  reason: 'info_pending',
  message: /^Waiting for a, b to report what they have/
}, {
  what: 'a node that has told neither memory nor links may close the cycle',
  request: { minNodes: 2 },
  view: view([node('a', 50), node('b', 0, { memory: null })], { edges: [] }),
  reason: 'info_pending',
  message: /b/
}, {
  what: 'an untold node is not waited for when it cannot help',
  request: { minNodes: 3 },
  view: view([node('a', 50), node('b', 0, { memory: null })]),
  reason: 'no_connected_cycle',
  message: /^min_nodes is 3, but 2 nodes can run acme\/x\./,
  suggestions: ['set min_nodes to 1']
}, {
  what: 'heads that cannot be dealt out',
  request: { sharding: 'Tensor', minNodes: 3, card: card(heads) },
  view: view(three),
  reason: 'tensor_indivisible',
  message: /splits 32 heads, 8 key-value heads and a width of 4096 evenly, which 3 nodes do not allow\./,
  suggestions: ['set sharding to Pipeline', 'set min_nodes to 2']
}, {
  what: 'an engine of one node',
  request: { minNodes: 2 },
  view: view(three, { engines: { lm: { ...lm, multiNode: false } } }),
  reason: 'spread_unsupported',
  message: /^Engine lm runs a model on one node, so min_nodes 2 cannot be met\./,
  suggestions: ['set min_nodes to 1']
}, {
  what: 'an engine that links its nodes in another way',
  request: { minNodes: 2 },
  view: view(three, { engines: { lm: rpc } }),
  reason: 'spread_unsupported',
  message: /^Engine lm spreads a model over nodes as LlamaRpc, not as Ring, so min_nodes 2 cannot be met\./,
  suggestions: ['set instance_meta to LlamaRpc', 'set min_nodes to 1']
}, {
  what: 'fewer nodes than asked for',
  request: { minNodes: 4 },
  view: view(three),
  reason: 'no_connected_cycle',
  message: /^min_nodes is 4, but 3 nodes can run acme\/x\. It can be placed if you set min_nodes to 3\.$/,
  suggestions: ['set min_nodes to 3']
}, {
  what: 'a chain is not a cycle',
  request: { minNodes: 3 },
  view: view(three, { edges: links(['a', 'b'], ['b', 'c']) }),
  reason: 'no_connected_cycle',
  message: /^No cycle of 3 or more nodes with live links both ways among the 3 that can run acme\/x\./,
  suggestions: ['set min_nodes to 2']
}, {
  what: 'a link in one direction is none',
  request: { minNodes: 2 },
  view: view(three.slice(0, 2), { edges: [{ from: 'a', to: 'b' }] }),
  reason: 'no_connected_cycle',
  message: /^No cycle of 2 or more nodes/
}, {
  what: 'donors without a common driver',
  request: { minNodes: 3, instanceMeta: 'LlamaRpc' },
  view: view([...three, node('d', 50)], { engines: { lm: rpc }, edges: links(['a', 'b'], ['c', 'd']) }),
  reason: 'no_connected_cycle',
  message: /^No node has live links both ways to 2 others among the 4/
}, {
  what: 'too little memory anywhere',
  view: view([node('a', 11), node('b', 5)], { edges: [] }),
  reason: 'insufficient_memory',
  message: new RegExp('^Model acme/x does not fit on the nearest choice, 1 node: a: needs 13\\.25 GiB ' +
    '\\(weights 10\\.00 GiB \\+ KV cache 0 MiB \\+ buffers 3\\.00 GiB \\+ process 0\\.25 GiB\\), ' +
    'has 11\\.00 GiB\\. Counted with a context of 2048 tokens\\. ' +
    'It can be placed if you free 2\\.26 GiB of memory on a\\.$'),
  suggestions: ['free 2.26 GiB of memory on a', 'free 8.26 GiB of memory on b']
}, {
  what: 'memory is not summed: an even part is too much for one',
  request: { sharding: 'Tensor', minNodes: 2, card: card(heads), contextLength: 8192 },
  view: view([node('a', 50), node('b', 7)]),
  reason: 'insufficient_memory',
  message: /on 2 nodes: b: needs 7\.06 GiB \(weights 5\.00 GiB \+ KV cache 0\.31 GiB .* 8192 tokens/,
  suggestions: [
    'set context_length to 4096', 'set sharding to Pipeline', 'set min_nodes to 1',
    'free 65 MiB of memory on b'
  ]
}]

for (const row of rows) {
  t.test(`${row.reason}: ${row.what}`, async (t) => {
    const result = refused(plan(request(row.request), row.view))
    t.equal(result.reason, row.reason)
    t.match(result.message, row.message)
    t.equal(result.details['modelId'], 'acme/x')
    const texts = result.details.suggestions.map(({ text }) => text)
    if (row.suggestions !== undefined) t.same(texts, row.suggestions)
    t.equal('pendingNodes' in result, row.reason === 'info_pending')
  })
}

t.test('a longer context needs more, and one context at least', async (t) => {
  const whole = card({ ...heads, contextLength: 131_072 })
  const needed = (contextLength?: number): number =>
    planned(plan(request({ card: whole, contextLength }), view([node('a', 100)]))).ranks[0]!.neededBytes
  const usual = 2 * 2 * USUAL_CONTEXT * 20 * 8 * 128
  t.equal(USUAL_CONTEXT, 8192)
  t.equal(needed(), 13.25 * GIB + usual)
  t.equal(needed(65_536), 13.25 * GIB + 8 * usual)
  t.equal(needed(16), 13.25 * GIB + 16 * usual / 512, 'sixteen short ones')
  t.equal(needed(10 ** 9), 13.25 * GIB + 16 * usual, 'no more than the model has')
})

t.test('pending nodes are named with what they have not told', async (t) => {
  const nodes = [node('a', 1), node('b', 0, { memory: null, backends: null })]
  const result = refused(plan(request(), view(nodes)))
  t.same(result.pendingNodes, ['b'])
  t.same(result.details['pendingNodes'], [{ nodeId: 'b', name: 'b', missing: ['memory', 'backends'] }])
})

t.test('a node that has not told is not needed where another fits', async (t) => {
  const nodes = [node('a', 0, { memory: null }), node('b', 14)]
  t.equal(planned(plan(request(), view(nodes))).ranks[0]?.nodeId, 'b')
})

t.test('equal is refused and a byte more is not, on RAM, GPU and in parts', async (t) => {
  const needed = 13.25 * GIB
  const exact = request({ contextLength: 8192 })
  const gpu = (used: number): ClusterView => view([
    node('a', 100, { gpus: [{ total: 20 * GIB, used }], backends: { lm: ['cuda'] } })
  ])
  const part = (bytes: number): ClusterView =>
    view([node('a', 6.75 + bytes / GIB), node('b', 6.75 + bytes / GIB)])
  t.match(refused(plan(request(), view([node('a', needed / GIB)]))).message, /has 13\.25 GiB, 1 byte too few/)
  t.ok(plan(request(), view([node('a', (needed + 1) / GIB)])).ok)
  t.notOk(plan(exact, gpu(18 * GIB - needed - MASK)).ok)
  t.ok(plan(exact, gpu(18 * GIB - needed - MASK - 1)).ok)
  t.notOk(plan(request({ minNodes: 2 }), part(0)).ok)
  t.ok(plan(request({ minNodes: 2 }), part(1)).ok)
  const model = card({ ...heads, headSize: 0 })
  t.notOk(plan(request({ minNodes: 2, sharding: 'Tensor', card: model }), part(0)).ok)
  t.ok(plan(request({ minNodes: 2, sharding: 'Tensor', card: model }), part(1)).ok)
})

t.test('a library takes other memory than the program', async (t) => {
  const { library } = onLibrary
  const engines = { lm: { ...onLibrary, library: { ...library, fixedBytes: GIB } } }
  const needed = (more: Partial<NodeFacts>): number =>
    planned(plan(request(), view([node('a', 50, more)], { engines }))).ranks[0]!.neededBytes
  t.equal(needed({ onLibrary: ['lm'] }) - needed({}), 0.75 * GIB)
})

t.test('overhead is exact in hundredths', async (t) => {
  const model = card({ totalBytes: 1000 })
  const engines = { lm: { ...lm, overhead: 1.1 } }
  const result = planned(plan(request({ card: model }), view([node('a', 1)], { engines })))
  t.equal(result.ranks[0]!.neededBytes, 1100 + GIB / 4)
})

t.test('the details hold every term', async (t) => {
  const result = refused(plan(request({ card: card(heads), contextLength: 8192 }), view([node('a', 9)], {
    reservations: [claim('a', 2 * GIB), claim('z', GIB)],
    releasing: [claim('a', GIB)]
  })))
  t.same(result.details['nodes'], [{
    nodeId: 'a',
    name: 'a',
    backend: 'cpu',
    startLayer: 0,
    endLayer: 20,
    shareBytes: 10 * GIB,
    cacheBytes: 2 * 2 * 8192 * 20 * 8 * 128,
    bufferBytes: 3 * GIB,
    fixedBytes: 0.25 * GIB,
    neededBytes: 13.875 * GIB,
    factor: 1.3875,
    memory: 'ram',
    totalBytes: 1024 * GIB,
    limitBytes: 768 * GIB,
    freeBytes: 9 * GIB,
    reservedBytes: 2 * GIB,
    releasingBytes: GIB,
    usableBytes: 8 * GIB,
    shortBytes: 5.875 * GIB + 1
  }])
})

t.test('links that are live in one direction are told', async (t) => {
  const edges = [...mesh(three).filter(({ from, to }) => from !== 'a' || to !== 'c'), { from: 'z', to: 'a' }]
  const result = refused(plan(request({ minNodes: 3 }), view(three, { edges })))
  t.same(result.details['oneWayLinks'], [{ from: 'c', to: 'a' }])
})

t.test('many nodes are named briefly', async (t) => {
  const nodes = Array.from({ length: 7 }, (_, i) => node(`n${i}`, 1))
  const result = refused(plan(request({ minNodes: 7 }), view(nodes)))
  t.match(result.message, /on 7 nodes: n0: .*; n3: [^;]*; and 3 more\./)
  t.equal((result.details['nodes'] as unknown[]).length, 7)
  const excluded = nodes.map(({ nodeId }) => nodeId)
  t.match(refused(plan(request({ excluded }), view(nodes))).message, /on n0, n1, n2, n3 and 3 more \(/)
})

t.test('stopping an instance is suggested, the smallest first', async (t) => {
  const held = (instanceId: string, gib: number): ClusterView['instances'][number] =>
    ({ instanceId, modelId: `acme/${instanceId}`, memory: [claim('a', gib * GIB)] })
  const instances = [held('large', 9), held('small', 1), held('right', 8)]
  const result = refused(plan(request(), view([node('a', 6)], { instances })))
  t.same(result.details.suggestions.map(({ text }) => text), [
    'stop instance right (acme/right)', 'stop instance large (acme/large)', 'free 7.26 GiB of memory on a'
  ])
})
