import t from 'tap'
import fit from '../tools/fit.js'
import whatIf from '../tools/what-if.js'
import { instanceOn, seenState } from './verb-kit.js'
import { MODEL, refused, run } from './tool-kit.js'

const sums = { error: null, details: { ranks: [
  { nodeId: 'id-n1', backend: 'cpu', startLayer: 0, endLayer: 10, shareBytes: 2 ** 30, neededBytes: 2 ** 31,
    usableBytes: 2 ** 33 }
] } }

t.test('fit: where it would go, or what would make it fit', async (t) => {
  const yes = await run(fit, { model: MODEL }, {
    '/state': seenState(), '/instance/placement': instanceOn('i', MODEL, ['id-n1']),
    '/instance/previews': { previews: [refused, sums] }
  })
  t.match(yes, { unknown: [], facts: [{
    level: 'ok', code: 'fits', about: [MODEL, 'n1'], remedy: 'Place it: `svc place acme/chat`.',
    text: /^acme\/chat fits: it would go to n1 \(n1 .*needs 2\.0 GiB.*can use 8\.0 GiB\)\.$/
  }] })
  const no = { '/state': { ...seenState(), instances: { i1: instanceOn('i1', MODEL, ['id-n2']) } },
    '/instance/placement': [400, 'insufficient_memory', refused.details] }
  t.match((await run(fit, { model: MODEL, without: 'n2' }, no)).facts, [
    { level: 'warn', code: 'does_not_fit', text: /does not fit: n1 .*1\.0 GiB too little\.$/,
      remedy: /^It would fit after this: free 1\.00 GiB/ },
    { code: 'way_out', text: 'To stop instance i9 (acme/big): `svc stop i9`.' },
    { code: 'placed', text: /on n2 already/ }
  ])
  const none = { '/state': seenState(),
    '/instance/placement': [400, 'model_unknown', { known: ['acme/chatt', 'b/c'] }] }
  t.match((await run(fit, { model: MODEL }, none)).facts,
    [{ code: 'model_unknown', text: /^No model is called .* here; acme\/chatt is/, remedy: /svc pull acme/ }])
  const later = { '/state': seenState(), '/instance/placement': [503, 'info_pending'] }
  t.match(await run(fit, { model: MODEL }, later), { facts: [], unknown: [/Whether acme\/chat fits/] })
})

const cluster = { term: 1, quorum: 'ok', stale: false, partition: false, knownNodes: 2, liveNodes: 2 }
const state = {
  ...seenState(), masterNodeId: 'id-n2', localNodeId: 'id-n1', nodeHealth: {}, nodeCapabilities: {}, cluster,
  instances: { i1: instanceOn('i1', MODEL, ['id-n2']) }
}
const copies = (...kinds: [node: string, kind: string][]): object => ({
  copies: kinds.map(([nodeId, kind]) => ({ modelId: MODEL, nodeId, kind, live: true }))
})
const settings = (value: unknown): object => ({ entries: [{ path: 'cluster.quorum', value }] })

t.test('what_if: what is lost with a node, and where it goes', async (t) => {
  const fine = await run(whatIf, { node: 'N2' }, {
    '/state': state, '/config': settings(1), '/instance/placement': instanceOn('i', MODEL, ['id-n1']),
    '/models/copies': copies(['id-n1', 'staged'], ['id-n2', 'staged'])
  })
  t.match(fine, { unknown: [], facts: [
    { level: 'info', code: 'what_if', about: ['n2', MODEL, 'n1'], text: /^If n2 died: .*acme\/chat/ },
    { code: 'quorum', text: /^1 of 2 nodes would be left and keep the quorum; another node would be/ },
    { code: 'would_move', text: /^acme\/chat would be placed again on n1/ }
  ] })
  const worse = await run(whatIf, { node: 'id-n2' }, {
    '/state': state, '/config': settings('majority'),
    '/instance/placement': [400, 'insufficient_memory', refused.details],
    '/models/copies': copies(['id-n2', 'store'], ['id-n1', 'receiving'])
  })
  t.match(worse.facts, [
    { level: 'warn', code: 'what_if' }, { code: 'no_quorum', text: /2 are needed/ },
    { code: 'would_wait', remedy: /`svc place acme\/chat --exclude n2 --dry-run --explain`/ },
    { code: 'store_unreachable' },
    { code: 'single_copy', remedy: 'Make another copy: `svc stage acme/chat --node n1`.' }
  ])
  const answers = { '/state': state, '/config': settings(1), '/models/copies': copies() }
  const alone = { ...state, localNodeId: 'id-n2', topology: { nodes: ['id-n2'] } }
  t.match((await run(whatIf, { node: 'n2' }, { ...answers, '/state': alone })).facts, [
    { text: /^If n2 died: no live node would be left; acme\/chat would wait for a place\.$/ }, {},
    { text: 'acme/chat would wait until a node is back.', remedy: /svc join-token/ }
  ])
  t.match(await run(whatIf, { node: 'n9' }, answers),
    { facts: [], unknown: ['No node is called n9; there are n1, n2.'] })
})
