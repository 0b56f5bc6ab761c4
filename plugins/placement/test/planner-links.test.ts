/** Slow links between a plan's nodes are named in its explanation. */
import t from 'tap'
import { plan } from '../planner/index.js'
import type { ClusterView, EngineTraits } from '../planner/types.js'
import { card, node } from './planner-kit.js'

const traits: EngineTraits = {
  multiNode: true, meta: 'LlamaRpc', tensor: false, overhead: 1, backends: ['cpu']
}
type Measured = Pick<ClusterView['edges'][number], 'rttMs' | 'bytesPerSecond'>

function why (there: Measured, back: Measured = {}): string {
  const view: ClusterView = {
    nodes: [node('attic', 8), node('cellar', 8)], engines: { lm: traits },
    edges: [{ from: 'attic', to: 'cellar', ...there }, { from: 'cellar', to: 'attic', ...back }],
    reservations: [], releasing: [], instances: []
  }
  const result = plan({
    card: card(), sharding: 'Pipeline', instanceMeta: 'LlamaRpc', minNodes: 1, excluded: [], force: false
  }, view)
  return result.ok ? result.plan.why : result.reason
}

const SLOW = / The link between attic and cellar is slow: (.*)\.$/

t.test('a slow link', async (t) => {
  const cases: [string, Measured, Measured | undefined, string | undefined][] = [
    ['not measured', {}, undefined, undefined],
    ['not measured yet', { rttMs: null, bytesPerSecond: null }, undefined, undefined],
    ['a fast one', { rttMs: 0.3, bytesPerSecond: 117e6 }, undefined, undefined],
    ['few bytes', { rttMs: 0.3, bytesPerSecond: 11.2e6 }, undefined,
      '11.2 MB/s; sending cellar its part takes 8 min'],
    ['as the other end says', {}, { bytesPerSecond: 11.2e6 },
      '11.2 MB/s; sending cellar its part takes 8 min'],
    ['a long way', { rttMs: 20, bytesPerSecond: 117e6 }, { rttMs: 24 },
      'a round trip of 24 ms for each token'],
    ['both', { rttMs: 20, bytesPerSecond: 50e6 }, undefined,
      '50.0 MB/s, a round trip of 20 ms for each token; sending cellar its part takes 2 min']
  ]
  for (const [title, there, back, expected] of cases) {
    const said = why(there, back)
    t.match(said, /^2 nodes, /)
    t.equal(SLOW.exec(said)?.[1], expected, title)
  }
})
