// Duration of a plan, and of all previews for a model, in the planner alone. No I/O, one thread.
import { source } from '../lib/paths.mjs'
import { figure } from '../lib/report.mjs'
import { quantile } from '../lib/stats.mjs'

const { plan, previews } = await source('plugins/placement/planner/index.ts')

const GIB = 2 ** 30
const PLAN_LIMIT_MS = 10
const PREVIEWS_LIMIT_MS = 100

const card = (n, totalBytes) => ({
  modelId: `bench/m${n}`, revision: 'r1', title: '', description: '', tasks: ['chat'], family: 'llama',
  engine: 'lm', backends: ['cpu'], files: [], totalBytes, nLayers: 80, hiddenSize: 8192, heads: 64,
  kvHeads: 8, headSize: 128, contextLength: 8192, supportsTensor: true, companions: [], licence: 'MIT',
  languages: ['en'], quantization: null, voices: [], defaults: {}, support: {}
})

/** Fully meshed nodes with 8 to 31 GiB of free memory each, the same on every call. */
function viewOf (count) {
  const nodes = Array.from({ length: count }, (_, n) => ({
    nodeId: `node${String(n).padStart(2, '0')}`, installId: `install${n}`, name: `n${n}`,
    memory: { ramTotal: 64 * GIB, ramAvailable: (8 + (n * 7919) % 24) * GIB },
    vram: null, backends: { lm: ['cpu'] }, stagedBytes: new Map(), participation: 'full', lends: true
  }))
  const edges = nodes.flatMap(({ nodeId: from }) =>
    nodes.flatMap(({ nodeId: to }) => from === to ? [] : [{ from, to }]))
  const engines = { lm: { multiNode: true, meta: 'Ring', tensor: true, overhead: 1.3, backends: ['cpu'] } }
  return { nodes, edges, engines, reservations: [], releasing: [], instances: [] }
}

/** Model sizes from 1 GiB, which fits on one node, to more than all 64 nodes have, which is refused. */
const models = Array.from({ length: 50 }, (_, n) => card(n, Math.ceil(GIB * 1.16 ** n)))

function timed (work) {
  const start = performance.now()
  const result = work()
  return { ms: performance.now() - start, result }
}

function measure (count, rounds) {
  const view = viewOf(count)
  const plans = []
  const tables = []
  const outcomes = { planned: 0, refused: 0, most: 0 }
  for (let round = 0; round <= rounds; round++) {
    for (const model of models) {
      const request = {
        card: model, sharding: 'Pipeline', instanceMeta: 'Ring', minNodes: 1, excluded: [], force: false
      }
      const one = timed(() => plan(request, view))
      const all = timed(() => previews(model, view))
      // The first round only warms the code up.
      if (round === 0) continue
      plans.push(one.ms)
      tables.push(all.ms)
      if (one.result.ok) {
        outcomes.planned++
        outcomes.most = Math.max(outcomes.most, one.result.plan.ranks.length)
      } else outcomes.refused++
    }
  }
  return { count, plans, tables, outcomes }
}

const row = ({ count, outcomes }, what, values) => [`${count}`, what,
  ...[0.5, 0.99, 1].map((q) => figure(quantile(values, q), 'ms')),
  `${outcomes.planned} planned, on up to ${outcomes.most} nodes; ${outcomes.refused} refused`]

export default {
  title: 'Planning',
  async run ({ short, rounds = short ? 5 : 30 }) {
    const results = [3, 16, 64].map((count) => measure(count, rounds))
    const largest = results.at(-1)
    return {
      columns: ['nodes', 'what', 'p50', 'p99', 'max', 'outcome'],
      rows: results.flatMap((r) => [row(r, 'plan', r.plans), row(r, 'all previews of a model', r.tables)]),
      targets: [
        { name: 'plan, 64 nodes, p99', value: quantile(largest.plans, 0.99), limit: PLAN_LIMIT_MS,
          unit: 'ms' },
        { name: 'previews, 64 nodes, p99', value: quantile(largest.tables, 0.99), limit: PREVIEWS_LIMIT_MS,
          unit: 'ms' }
      ],
      notes: [
        `${models.length} models from 1 to ${Math.round(models.at(-1).totalBytes / GIB)} GiB in 80 layers, ` +
          `${rounds} times each, after one round that is not counted; every node linked with every other`,
        'previews: every combination of sharding, meta and number of nodes that makes a difference'
      ],
      data: results.map(({ count, plans, tables, outcomes }) => ({ nodes: count, outcomes,
        planMs: [0.5, 0.99, 1].map((q) => quantile(plans, q)),
        previewsMs: [0.5, 0.99, 1].map((q) => quantile(tables, q)) }))
    }
  }
}
