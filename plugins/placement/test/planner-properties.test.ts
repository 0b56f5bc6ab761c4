import t from 'tap'
import { plan } from '../planner/index.js'
import { REFUSALS } from '../planner/types.js'
import type { ClusterView, NodeFacts, PlanRequest, RefusalReason } from '../planner/types.js'
import { withChange } from '../planner/suggest.js'
import { GIB, lm, mesh, node, seeded, shuffled, someCase } from './planner-kit.js'
import { breaches, fewestNodes } from './planner-rules.js'

const CASES = 1500

type Memory = NonNullable<NodeFacts['memory']>
interface Question { request: PlanRequest, view: ClusterView }
interface Case extends Question { seed: number }
const cases: Case[] = Array.from({ length: CASES }, (_, seed) => ({ ...someCase(seeded(seed)), seed }))
const results = cases.map(({ request, view }) => plan(request, view))

t.test('the cases meet every reason, and plans of every size', async (t) => {
  const reasons = new Set(results.flatMap((result) => result.ok ? [] : [result.reason]))
  const sizes = new Set(results.flatMap((result) => result.ok ? [result.plan.ranks.length] : []))
  t.same([...reasons].sort(), [...REFUSALS].sort())
  t.same([...sizes].sort(), [1, 2, 3, 4, 5])
})

t.test('every plan keeps every rule, on the fewest nodes', async (t) => {
  for (const [i, { request, view, seed }] of cases.entries()) {
    const result = results[i]!
    if (!result.ok) continue
    const { ranks } = result.plan
    const wrong = breaches(request, view, result.plan)
    const fewest = fewestNodes(request, view, true)
    if (fewest !== ranks.length) wrong.push(`${ranks.length} nodes, ${fewest} would do`)
    if (wrong.length > 0) t.fail(`seed ${seed}`, { wrong, plan: result.plan })
  }
})

t.test('what is refused cannot be done with the nodes that are known', async (t) => {
  for (const [i, { request, view, seed }] of cases.entries()) {
    const result = results[i]!
    if (result.ok || !Object.hasOwn(view.engines, request.card.engine)) continue
    if (fewestNodes(request, view, true) !== null) t.fail(`seed ${seed}: refused ${result.reason}`)
    if (view.nodes.some(isPending)) continue
    const byMemory = fewestNodes(request, view, false) !== null
    t.equal(result.reason === 'insufficient_memory', byMemory, `seed ${seed}: ${result.reason}`)
  }
})

function isPending ({ memory, backends, participation }: NodeFacts): boolean {
  return participation !== 'management' && (memory === null || backends === null || participation === null)
}

/** The cluster as if the pending nodes had reported ample resources and links to all nodes. */
function allTold ({ card: { engine, backends } }: PlanRequest, view: ClusterView): ClusterView {
  const memory = { ramTotal: 4096 * GIB, ramAvailable: 4096 * GIB }
  const participation = 'full'
  const pending = new Set(view.nodes.filter(isPending).map(({ nodeId }) => nodeId))
  const news = mesh(view.nodes).filter(({ from, to }) => pending.has(from) || pending.has(to))
  return {
    ...view,
    edges: [...view.edges, ...news],
    nodes: view.nodes.map((one) => isPending(one)
      ? { ...one, memory, gpus: [], backends: one.backends ?? { [engine]: backends }, participation }
      : one)
  }
}

/** Changes the request and the cluster so that the cause of the refusal disappears. */
function relaxed (reason: RefusalReason, request: PlanRequest, view: ClusterView): Question {
  const { card: model } = request
  const engine = { ...lm, ...view.engines[model.engine] }
  const engines = { ...view.engines, [model.engine]: engine }
  switch (reason) {
    case 'tensor_unsupported':
      engine.tensor = true
      return { request: { ...request, card: { ...model, supportsTensor: true } }, view: { ...view, engines } }
    case 'too_few_layers':
      return { request: { ...request, card: { ...model, nLayers: request.minNodes } }, view }
    case 'engine_missing':
    case 'no_backend': {
      const [spare] = [node('spare', 0, { backends: { [model.engine]: model.backends } })]
      return { request, view: { ...view, engines, nodes: [...view.nodes, spare] } }
    }
    case 'nodes_drained':
      return { request, view: { ...view, nodes: view.nodes.map((one) => ({ ...one, drained: false })) } }
    case 'exclusions_removed_all': return { request: { ...request, excluded: [] }, view }
    case 'info_pending': return { request, view: allTold(request, view) }
    case 'tensor_indivisible':
      return { request: { ...request, card: { ...model, heads: 60, kvHeads: 60, hiddenSize: 60 } }, view }
    case 'spread_unsupported':
      engine.multiNode = true
      engine.meta = request.instanceMeta
      return { request, view: { ...view, engines } }
    case 'no_connected_cycle':
      return { request: { ...request, minNodes: 1 }, view: { ...view, engines, edges: mesh(view.nodes) } }
    case 'insufficient_memory':
      return { request: { ...request, force: true }, view: allTold(request, view) }
  }
}

t.test('a refusal names what stands in the way: without it there is a plan or a later reason', async (t) => {
  for (const [i, { request, view, seed }] of cases.entries()) {
    const result = results[i]!
    if (result.ok) continue
    const without = relaxed(result.reason, request, view)
    const after = plan(without.request, without.view)
    const later = after.ok || REFUSALS.indexOf(after.reason) > REFUSALS.indexOf(result.reason)
    if (!later) t.fail(`seed ${seed}: ${result.reason}, then ${after.reason}: ${after.message}`)
    const last = result.reason === 'insufficient_memory' || result.reason === 'info_pending'
    if (last && !after.ok) t.fail(`seed ${seed}: ${result.reason}, then ${after.reason}: ${after.message}`)
  }
})

t.test('the order in which nodes, links and claims are listed does not matter', async (t) => {
  for (const [i, { request, view, seed }] of cases.entries()) {
    const random = seeded(seed + CASES)
    const again = plan(request, {
      ...view,
      nodes: shuffled(random, view.nodes),
      edges: shuffled(random, [...view.edges, ...view.edges]),
      reservations: shuffled(random, view.reservations),
      releasing: shuffled(random, view.releasing)
    })
    if (JSON.stringify(again) !== JSON.stringify(results[i])) t.same(again, results[i], `seed ${seed}`)
  }
})

function moreOf ({ ramTotal, ramAvailable }: Memory, bytes: number): Memory {
  return { ramTotal: ramTotal + bytes, ramAvailable: ramAvailable + bytes }
}

t.test('more never makes a request fail that was met', async (t) => {
  for (const [i, { request, view, seed }] of cases.entries()) {
    if (!results[i]!.ok) continue
    const random = seeded(seed + 2 * CASES)
    const more = node('m', random() * 16)
    const nodes = [...view.nodes, more]
    const wider = { ...view, nodes, edges: [...view.edges, ...mesh(nodes).filter(() => random() < 0.5)] }
    const bigger = {
      ...view,
      nodes: view.nodes.map((one) => one.memory === null || random() < 0.5
        ? one
        : { ...one, memory: moreOf(one.memory, GIB) })
    }
    const unexcluded = { ...request, excluded: [...request.excluded.slice(1), 'unknown'] }
    t.ok(plan(request, wider).ok, `seed ${seed}: a node more`)
    t.ok(plan(request, bigger).ok, `seed ${seed}: memory more`)
    t.ok(plan({ ...request, force: true }, view).ok, `seed ${seed}: forced`)
    t.ok(plan(unexcluded, view).ok, `seed ${seed}: one exclusion less`)
  }
})

t.test('every suggestion works', async (t) => {
  const kinds = new Map<string, number>()
  for (const [i, { request, view, seed }] of cases.entries()) {
    const result = results[i]!
    for (const suggestion of result.ok ? [] : result.details.suggestions) {
      kinds.set(suggestion.kind, (kinds.get(suggestion.kind) ?? 0) + 1)
      const changed = withChange(request, view, suggestion)
      if (!plan(changed.request, changed.view).ok) t.fail(`seed ${seed}: ${suggestion.text}`)
    }
  }
  t.same([...kinds.keys()].sort(),
    ['context_length', 'free', 'include', 'instance_meta', 'min_nodes', 'sharding', 'stop', 'undrain'])
})

t.test('a refusal is full sentences and plain JSON', async (t) => {
  for (const [i, { seed }] of cases.entries()) {
    const result = results[i]!
    if (result.ok) continue
    if (!/^([A-Z]|min_nodes ).*\.$/.test(result.message)) t.fail(`seed ${seed}: ${result.message}`)
    if (/undefined|NaN|null|Infinity/.test(result.message)) t.fail(`seed ${seed}: ${result.message}`)
    const plain = JSON.parse(JSON.stringify(result.details)) as unknown
    t.same(plain, result.details, `seed ${seed}: plain JSON`)
  }
})
