import t from 'tap'
import { explainRefusal, noInstance } from '../routing/explain.js'
import { pick, type Candidate } from '../routing/pick.js'

const at = (name: string, contextTokens: number, own = false): Candidate => ({
  nodeId: `n-${name}`, installId: `i-${name}`, instanceId: name, runnerId: `r-${name}`, own, load: 0,
  contextTokens
})
const here = at('a', 1024, true)
const there = at('b', 4096)

const rows: [string, Candidate[], Parameters<typeof pick>[1], object][] = [
  ['no runner serves the model', [], {}, { code: 'none_serves', nodeIds: [] }],
  ['the node of the request serves it', [there, here], { pinned: true }, { instanceId: 'a' }],
  ['only other nodes serve it', [there], { pinned: true }, { code: 'other_node_named', nodeIds: ['n-b'] }],
  ['one instance was tried', [here, there], { except: ['a'] }, { instanceId: 'b' }],
  ['all were tried', [here, there], { except: ['a', 'b'] }, { code: 'none_left', nodeIds: ['n-a', 'n-b'] }],
  ['a longer context is needed', [here, there], { longerThan: 1024 }, { instanceId: 'b' }],
  ['no context is longer', [here, there], { longerThan: 4096 }, { code: 'none_left' }]
]
for (const [name, candidates, wanted, expected] of rows) {
  t.test(`pick: ${name}`, async (t) => { t.match(pick(candidates, wanted), expected) })
}

t.test('what a client reads of a refusal', async (t) => {
  const refused = (code: 'other_node_named' | 'none_left', starting: boolean): unknown =>
    noInstance('acme/x', explainRefusal('acme/x', { code, nodeIds: ['n-b'] }, starting), 0)
  t.match(refused('other_node_named', false), {
    status: 404, message: /the requested node does not serve it, only n-b\.$/,
    details: { brokenLink: 'placement', remedy: /target_node, --node.*`svc place acme\/x --node NODE`/ }
  })
  t.match(refused('other_node_named', true), { status: 503 }, 'its own runner may be ready soon')
  t.match(refused('none_left', false), { status: 503, details: { brokenLink: 'runner' } })
})
