import t from 'tap'
import { plan, previews } from '../planner/index.js'
import type { ClusterView, NodeFacts } from '../planner/types.js'
import type { Neighbours } from '../planner/candidates.js'
import { findGroup } from '../planner/search.js'
import { card, links, mesh, node, planned, refused, request, seeded, view } from './planner-kit.js'
import { breaches } from './planner-rules.js'

const SIZE = 64
const random = seeded(1)
const nodes: NodeFacts[] = Array.from({ length: SIZE }, (_, i) =>
  node(`n${String(i).padStart(2, '0')}`, 8 + Math.floor(random() * 24)))
const ids = nodes.map(({ nodeId }) => nodeId)
const meshed = view(nodes)

/** Models from 1 GiB up to more memory than the whole cluster has. */
const models = Array.from({ length: 50 }, (_, i) =>
  card({ modelId: `acme/m${i}`, totalBytes: Math.ceil(2 ** 30 * 1.16 ** i), nLayers: 80 }))

const grid = (width: number): ClusterView['edges'] => ids.flatMap((id, i) => [
  ...(i + 1) % width === 0 ? [] : links([id, ids[i + 1]!]),
  ...i + width >= SIZE ? [] : links([id, ids[i + width]!])
])

t.test('64 nodes in a mesh plan 50 models', async (t) => {
  const results = models.map((model) => plan(request({ card: model }), meshed))
  const sizes = new Set(results.map((result) => result.ok ? result.plan.ranks.length : result.reason))
  t.ok(sizes.size > 10, 'from one node to a refusal')
  t.ok(sizes.has(1) && sizes.has('insufficient_memory'))
})

t.test('a ring in a mesh of 64 nodes takes a step for each of its nodes', async (t) => {
  const seats = nodes.map((node) => ({ candidate: { node } as never, layers: 1 }))
  const all = new Set(seats.map(({ candidate }) => candidate))
  const others: Neighbours = (one) => new Set([...all].filter((other) => other !== one))
  for (const size of [2, 3, 32, SIZE]) {
    // The first pass must find the ring with half of the budget; the other half is for the second pass.
    const budget = { steps: 2 * size }
    const ring = findGroup(seats, others, { topology: 'ring', size, layers: size }, budget)
    t.strictSame([ring?.length, budget.steps], [size, size])
  }
  const asked = request({ minNodes: SIZE, card: models[20]! })
  t.same(breaches(asked, meshed, planned(plan(asked, meshed))), [])
})

t.test('previews of the whole cluster', async (t) => {
  t.equal(previews(models[0]!, meshed).filter(({ result }) => result.ok).length, SIZE)
})

t.test('a mesh with gaps still has a ring through nearly all', async (t) => {
  for (const share of [0.9, 0.5, 0.2]) {
    const edges = mesh(nodes).filter(({ from, to }) => from < to && random() < share)
      .flatMap(({ from, to }) => links([from, to]))
    const asked = request({ minNodes: SIZE - 2, card: models[20]! })
    const gapped = { ...meshed, edges }
    t.same(breaches(asked, gapped, planned(plan(asked, gapped))), [], `${share} of the links`)
  }
})

t.test('one ring of 64 nodes is found, and in a chain there is none', async (t) => {
  const chain = ids.slice(1).flatMap((id, i) => links([ids[i]!, id]))
  const asked = request({ minNodes: 3, card: models[20]! })
  const ring = { ...meshed, edges: [...chain, ...links([ids[0]!, ids[SIZE - 1]!])] }
  t.equal(planned(plan(asked, ring)).ranks.length, SIZE)
  const result = refused(plan(asked, { ...meshed, edges: chain }))
  t.match(result, { reason: 'no_connected_cycle', details: { searchCut: false } })
})

t.test('a search that cannot be finished is cut short and says so', async (t) => {
  // On a chessboard a ring visits as many white as black squares, so no ring of 63 exists, only one of 64.
  const board = { ...meshed, edges: grid(8) }
  const odd = { ...board, nodes: nodes.slice(1) }
  const result = refused(plan(request({ minNodes: 63, card: models[20]! }), odd))
  t.match(result, { reason: 'no_connected_cycle', details: { searchCut: true } })
  t.match(result.message, /was found; the search was cut short\./)
  t.equal(planned(plan(request({ minNodes: 4, card: models[20]! }), board)).ranks.length, 4)
})
