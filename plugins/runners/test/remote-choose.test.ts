import t from 'tap'
import type { Cluster, NodeView, Section } from '../../../kernel/index.js'
import { choose } from '../remote/choose.js'
import type { Candidate } from '../remote/choose.js'
import { runnersElsewhere } from '../remote/elsewhere.js'
import type { RunnerStatus } from '../service.js'
import { soloInstance } from '../shapes.js'
import type { Instance } from '../shapes.js'
import { card } from './samples.js'

const at = (name: string, load: number, own = false): Candidate =>
  ({ nodeId: `n-${name}`, installId: `i-${name}`, instanceId: name, runnerId: `r-${name}`, own, load })

const choices: [string, Candidate[], string | undefined][] = [
  ['nobody', [], undefined],
  ['the only one', [at('a', 7)], 'a'],
  ['the least loaded', [at('a', 2), at('b', 1), at('c', 3)], 'b'],
  ['the least loaded, though another is here', [at('a', 2, true), at('b', 1)], 'b'],
  ['of equals the own one', [at('a', 1), at('b', 1, true), at('c', 1)], 'b'],
  ['of own equals the lower instance id', [at('b', 0, true), at('a', 0, true)], 'a'],
  ['of foreign equals the lower instance id', [at('c', 0), at('b', 0), at('d', 0)], 'b'],
  ['by code units, not by language', [at('a', 0), at('B', 0)], 'B'],
  ['of one instance the lower runner id',
    [{ ...at('a', 0), runnerId: 'y' }, { ...at('a', 0), runnerId: 'x' }], 'a']
]
for (const [name, candidates, expected] of choices) {
  t.test(`it takes ${name}`, async (t) => {
    t.equal(choose(candidates)?.instanceId, expected)
    t.equal(choose(candidates.toReversed())?.instanceId, expected, 'in whatever order they come')
    t.equal(choose(candidates.toReversed())?.runnerId, choose(candidates)?.runnerId)
  })
}

const nodes = new Map<string, Partial<NodeView>>([
  ['me', { self: true, live: true }], ['b', { self: false, live: true }], ['c', { self: false, live: true }],
  ['down', { self: false, live: false }]
])
const cluster: Pick<Cluster, 'resolve'> = {
  resolve (ref) {
    const node = ref === 'old-b' ? { ...nodes.get('b'), nodeId: 'b' } : { ...nodes.get(ref), nodeId: ref }
    return node.live === undefined ? undefined : { installId: `i-${node.nodeId}`, ...node } as NodeView
  }
}

const section = <T>(all: [nodeId: string, key: string, value: T][]): Section<T> =>
  ({ entries: () => all.map(([nodeId, key, value]) => ({ nodeId, key, value })) }) as unknown as Section<T>

const instance = (instanceId: string, nodeId: string, modelId = 'acme/x'): [string, string, Instance] =>
  ['master', instanceId, soloInstance({ instanceId, runnerId: `r-${instanceId}`, nodeId }, card(modelId))]

t.test('runners of other live nodes, with what those nodes say of them', async (t) => {
  const parts = {
    cluster,
    instances: section<Instance>([instance('1', 'me'), instance('2', 'b'), instance('3', 'c', 'acme/y'),
      instance('4', 'down'), instance('5', 'nobody'), instance('6', 'old-b'), instance('7', 'c')]),
    runners: section<RunnerStatus>([['b', 'r-2', { RunnerReady: {} }], ['c', 'r-7', { RunnerLoaded: {} }],
      ['b', 'r-3', { RunnerReady: {} }], ['down', 'r-4', { RunnerReady: {} }]])
  }
  t.same(runnersElsewhere(parts, 'acme/x'), [
    { nodeId: 'b', installId: 'i-b', instanceId: '2', runnerId: 'r-2', modelId: 'acme/x',
      status: { RunnerReady: {} } },
    { nodeId: 'c', installId: 'i-c', instanceId: '7', runnerId: 'r-7', modelId: 'acme/x',
      status: { RunnerLoaded: {} } }
  ])
  t.match(runnersElsewhere(parts, 'acme/y'), [{ instanceId: '3', status: null }],
    'what a node says of another node\'s runner does not count')
  t.same(runnersElsewhere(parts).map(({ instanceId }) => instanceId), ['2', '3', '7'])
  t.same(runnersElsewhere(parts, 'acme/none'), [])
})
