import t from 'tap'
import { plan } from '../planner/index.js'
import type { ClusterView, NodeFacts, PlanRequest } from '../planner/types.js'
import { GIB, card, links, lm, node, planned, request, view } from './planner-kit.js'

const vram = { total: 40 * GIB, used: 0 }
const both = { lm: ['cpu', 'cuda'] }
const staged = (gib: number): ReadonlyMap<string, number> => new Map([['acme/x', gib * GIB]])
const rpc = { lm: { ...lm, meta: 'LlamaRpc' } } as const

interface Row {
  what: string
  request?: Partial<PlanRequest>
  nodes: NodeFacts[]
  view?: Partial<ClusterView>
  /** For each expected rank, its node, backend and layers. */
  ranks: string[]
}

const rows: Row[] = [{
  what: 'the fewest nodes win over a better backend',
  nodes: [node('a', 14), node('b', 9, { gpus: [{ total: 8 * GIB, used: 0 }], backends: both }), node('c', 9)],
  ranks: ['a cpu 0-20']
}, {
  what: 'a better backend wins over staged bytes',
  nodes: [node('a', 50, { stagedBytes: staged(10) }), node('b', 50, { gpus: [vram], backends: both })],
  ranks: ['b cuda 0-20']
}, {
  what: 'staged bytes win over memory',
  nodes: [node('a', 90), node('b', 50, { stagedBytes: staged(1) })],
  ranks: ['b cpu 0-20']
}, {
  what: 'memory wins over the id',
  nodes: [node('a', 50), node('b', 51)],
  ranks: ['b cpu 0-20']
}, {
  what: 'the id decides last',
  nodes: [node('b', 50), node('a', 50)],
  ranks: ['a cpu 0-20']
}, {
  what: 'the engine says which backend is better',
  nodes: [node('a', 50, { gpus: [vram], backends: both })],
  view: { engines: { lm: { ...lm, backends: ['cpu', 'cuda'] } } },
  ranks: ['a cpu 0-20']
}, {
  what: 'a backend the engine does not list comes last',
  request: { card: card({ backends: ['odd', 'cpu'] }) },
  nodes: [node('a', 50, { backends: { lm: ['odd', 'cpu'] } }), node('b', 90, { backends: { lm: ['odd'] } })],
  ranks: ['a cpu 0-20']
}, {
  what: 'where the GPU is too small, the RAM of one node is better than two nodes',
  nodes: [node('a', 50, { gpus: [{ total: 8 * GIB, used: 0 }], backends: both }), node('b', 9)],
  ranks: ['a cpu 0-20']
}, {
  what: 'a GPU whose memory is not known is counted against the RAM',
  nodes: [node('a', 14, { backends: { lm: ['cuda'] } })],
  ranks: ['a cuda 0-20']
}, {
  what: 'on several nodes each takes its best backend with which all still fits',
  request: { minNodes: 2 },
  nodes: [
    node('a', 50, { gpus: [{ total: 6 * GIB, used: 0 }], backends: both }),
    node('b', 50, { gpus: [{ total: 6 * GIB, used: 0 }], backends: both })
  ],
  ranks: ['a cuda 0-2', 'b cpu 2-20']
}, {
  what: 'layers go in proportion to memory',
  nodes: [node('a', 12), node('b', 6), node('c', 6)],
  view: { edges: links(['a', 'b'], ['b', 'c'], ['c', 'a']) },
  request: { minNodes: 3 },
  ranks: ['a cpu 0-10', 'b cpu 10-15', 'c cpu 15-20']
}, {
  what: 'a layer that would be one too many goes to the other node',
  request: { card: card({ totalBytes: 4 * GIB, nLayers: 4 }) },
  nodes: [node('a', 4.2), node('b', 2.8)],
  ranks: ['a cpu 0-3', 'b cpu 3-4']
}, {
  what: 'every rank has a layer, however little memory',
  request: { minNodes: 2, card: card({ totalBytes: GIB }) },
  nodes: [node('a', 200), node('b', 0.5)],
  ranks: ['a cpu 0-19', 'b cpu 19-20']
}, {
  what: 'Tensor deals out evenly',
  request: {
    sharding: 'Tensor',
    minNodes: 2,
    card: card({ supportsTensor: true, heads: 32, kvHeads: 8, headSize: 128 })
  },
  nodes: [node('a', 90), node('b', 8)],
  ranks: ['a cpu 0-20', 'b cpu 0-20']
}, {
  what: 'Tensor goes on to a number of nodes that divides the heads',
  request: {
    sharding: 'Tensor',
    minNodes: 3,
    card: card({ supportsTensor: true, heads: 32, kvHeads: 8, headSize: 128 })
  },
  nodes: ['a', 'b', 'c', 'd', 'e'].map((id) => node(id, 50)),
  ranks: ['a cpu 0-20', 'b cpu 0-20', 'c cpu 0-20', 'd cpu 0-20']
}, {
  what: 'a ring follows the links',
  request: { minNodes: 4 },
  nodes: ['a', 'b', 'c', 'd'].map((id) => node(id, 50)),
  view: { edges: links(['a', 'c'], ['c', 'b'], ['b', 'd'], ['d', 'a']) },
  ranks: ['a cpu 0-5', 'c cpu 5-10', 'b cpu 10-15', 'd cpu 15-20']
}, {
  what: 'a driver needs links to its donors, not they to each other',
  request: { minNodes: 3, instanceMeta: 'LlamaRpc' },
  nodes: ['a', 'b', 'c'].map((id) => node(id, 50)),
  view: { engines: rpc, edges: links(['a', 'b'], ['b', 'c']) },
  ranks: ['b cpu 0-7', 'a cpu 7-14', 'c cpu 14-20']
}, {
  what: 'donors that suffice are taken where preferred ones would not',
  request: { instanceMeta: 'LlamaRpc', minNodes: 2 },
  nodes: [node('a', 9), node('b', 3, { stagedBytes: staged(1) }), node('c', 8)],
  view: { engines: rpc, edges: links(['a', 'b'], ['a', 'c']) },
  ranks: ['a cpu 0-11', 'c cpu 11-20']
}, {
  what: 'memory that is spoken for is not there, and memory being given back is',
  nodes: [node('a', 14), node('b', 10)],
  view: {
    reservations: [{ nodeId: 'a', backend: 'cpu', bytes: GIB }],
    releasing: [{ nodeId: 'b', backend: 'cpu', bytes: 4 * GIB }]
  },
  ranks: ['b cpu 0-20']
}, {
  what: 'a reservation on the GPU leaves the RAM alone',
  nodes: [node('a', 14, { gpus: [vram], backends: both })],
  view: { reservations: [{ nodeId: 'a', backend: 'cuda', bytes: 30 * GIB }] },
  ranks: ['a cpu 0-20']
}, {
  what: 'force does not look at memory, but at all else',
  request: { force: true, minNodes: 2 },
  nodes: [node('a', 0), node('b', 0), node('c', 9, { participation: 'management' })],
  ranks: ['a cpu 0-10', 'b cpu 10-20']
}, {
  what: 'a model without layers is one part',
  request: { card: card({ nLayers: 0 }) },
  nodes: [node('a', 50)],
  ranks: ['a cpu 0-0']
}, {
  what: 'a number of nodes below one is any number',
  request: { minNodes: -3 },
  nodes: [node('a', 50)],
  ranks: ['a cpu 0-20']
}]

for (const row of rows) {
  t.test(row.what, async (t) => {
    const { ranks } = planned(plan(request(row.request), view(row.nodes, row.view)))
    t.same(ranks.map((r) => `${r.nodeId} ${r.backend} ${r.startLayer}-${r.endLayer}`), row.ranks)
  })
}

t.test('at most three quarters of the RAM count, also with memory coming back', async (t) => {
  const one = node('a', 0, { memory: { ramTotal: 16 * GIB, ramAvailable: 16 * GIB } })
  const releasing = [{ nodeId: 'a', backend: 'cpu', bytes: 8 * GIB }]
  const small = request({ card: card({ totalBytes: GIB }) })
  t.equal(planned(plan(small, view([one], { releasing }))).ranks[0]?.usableBytes, 12 * GIB)
})

t.test('one node is Pipeline and Ring, whatever was asked', async (t) => {
  const model = card({ supportsTensor: true, heads: 32, kvHeads: 8, headSize: 128 })
  const asked = request({ sharding: 'Tensor', instanceMeta: 'LlamaRpc', card: model })
  const result = planned(plan(asked, view([node('a', 50)])))
  t.match(result, { sharding: 'Pipeline', instanceMeta: 'Ring' })
})

t.test('the plan says why, and what is there already', async (t) => {
  const result = planned(plan(request({ minNodes: 2 }), view([
    node('a', 50, { stagedBytes: staged(10) }), node('b', 50, { stagedBytes: staged(2) })
  ])))
  t.equal(result.stagedBytes, 12 * GIB)
  t.equal(result.why, '2 nodes, as few as allowed, on cpu; 12.00 GiB of the model already there.')
  const split = planned(plan(request(), view([node('a', 9), node('b', 9)])))
  t.equal(split.why, '2 nodes, the fewest that hold it, on cpu; 0 MiB of the model already there.')
  const forced = planned(plan(request({ force: true }), view([node('a', 9)])))
  t.match(forced.why, /memory was not checked\.$/)
  t.ok(forced.ranks[0]!.freeAfterBytes < 0)
})
