import t from 'tap'
import { previews, type Preview } from '../planner/index.js'
import { card, lm, node, view } from './planner-kit.js'

const three = [node('a', 50), node('b', 50), node('c', 50)]
const tensor = card({ supportsTensor: true, heads: 32, kvHeads: 8, headSize: 128 })

/** A preview as text, such as `Pipeline Ring 1: a`; for a refusal, the reason replaces the nodes. */
function brief ({ sharding, instanceMeta, minNodes, result }: Preview): string {
  const what = result.ok ? result.plan.ranks.map(({ nodeId }) => nodeId).join(' ') : result.reason
  return `${sharding} ${instanceMeta} ${minNodes}: ${what}`
}

t.test('every combination that makes a difference, once', async (t) => {
  t.same(previews(tensor, view(three)).map(brief), [
    'Pipeline Ring 1: a',
    'Pipeline Ring 2: a b',
    'Pipeline Ring 3: a b c',
    'Pipeline LlamaRpc 2: spread_unsupported',
    'Tensor Ring 2: a b',
    'Tensor Ring 3: tensor_indivisible',
    'Tensor LlamaRpc 2: spread_unsupported'
  ])
})

t.test('a number of nodes that gives the plan of a smaller one is left out', async (t) => {
  t.same(previews(card(), view([node('a', 9), node('b', 9), node('c', 3)])).map(brief), [
    'Pipeline Ring 1: a b',
    'Pipeline Ring 3: a b c',
    'Pipeline LlamaRpc 2: spread_unsupported',
    'Tensor Ring 2: tensor_unsupported',
    'Tensor LlamaRpc 2: tensor_unsupported'
  ])
})

t.test('on one node there is one combination', async (t) => {
  t.same(previews(tensor, view([node('a', 50)])).map(brief), ['Pipeline Ring 1: a'])
  t.same(previews(tensor, view([node('a', 5)])).map(brief), ['Pipeline Ring 1: insufficient_memory'])
  t.same(previews(tensor, view([])).map(brief), ['Pipeline Ring 1: no_backend'])
})

t.test('an engine of one node is refused for more', async (t) => {
  const engines = { lm: { ...lm, multiNode: false, tensor: false } }
  t.same(previews(card(), view(three, { engines })).map(brief), [
    'Pipeline Ring 1: a',
    'Pipeline Ring 2: spread_unsupported',
    'Pipeline LlamaRpc 2: spread_unsupported',
    'Tensor Ring 2: tensor_unsupported',
    'Tensor LlamaRpc 2: tensor_unsupported'
  ])
})

t.test('only the nodes asked for, by either id, less the excluded', async (t) => {
  const pipelines = (scope: Parameters<typeof previews>[2]): string[] =>
    previews(card(), view(three), scope).map(brief).filter((text) => text.startsWith('Pipeline Ring'))
  t.same(pipelines({ nodeIds: ['c', 'install-b', 'nobody'] }), ['Pipeline Ring 1: b', 'Pipeline Ring 2: b c'])
  t.same(pipelines({ nodeIds: ['c', 'b'], excluded: ['install-b'] }), ['Pipeline Ring 1: c'])
  t.same(pipelines({ nodeIds: [] }).length, 3)
  t.same(pipelines({ nodeIds: ['nobody'] }), ['Pipeline Ring 1: exclusions_removed_all'])
})
