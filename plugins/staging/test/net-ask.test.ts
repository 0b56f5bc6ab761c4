import { Readable } from 'node:stream'
import t from 'tap'
import { kernelError, type Caller, type MemberResponse } from '../../../kernel/index.js'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { eachNode, type EachNode } from '../peers/each-node.js'
import { json, Network, type NetNode, type Serve } from './manager-kit.js'

const caller: Caller = { id: 'me', mode: 'direct', authorities: new Set(['read']) }

/** A server that never answers; rejects when its request is aborted. */
const mute: Serve = async ({ signal }) => await new Promise<MemberResponse>((_resolve, reject) => {
  signal?.addEventListener('abort', () => { reject(new Error('aborted')) })
})

interface Said { nodeId: string, says: unknown }

function each (cluster: NetNode, clock: ManualClock, more: Partial<EachNode<Said>> = {}): Promise<Said[]> {
  return eachNode<Said>({ cluster, clock }, cluster.nodes(), {
    method: 'POST', path: '/do', body: { a: 1 }, caller, ms: 20_000,
    here: async () => ({ nodeId: 'n-one', says: 'here' }),
    read: (body) => ({ nodeId: 'other', says: body }),
    failed: ({ nodeId }, message) => ({ nodeId, says: `failed: ${message}` }),
    ...more
  })
}

t.test('eachNode: here, there, refused, broken, lost, too slow; in the order of the nodes', async (t) => {
  const net = new Network()
  const clock = manualClock()
  const one = net.node('one')
  const two = net.node('two', () => json(200, 'fine'))
  net.node('three', () => json(409, { error: { reason: 'busy', message: 'not now' } }))
  net.node('four', () => ({ status: 200, headers: {}, body: Readable.from([Buffer.from('{')]) }))
  net.node('five')
  const six = net.node('six', mute)
  net.node('seven', () => { throw kernelError('unreachable', 'the link broke') })
  net.lose('five')
  const all = each(one, clock)
  let over = false
  void all.then(() => { over = true })
  await clock.advance(19_999)
  t.notOk(over, 'nobody is given up before the deadline')
  await clock.advance(1)
  t.match(await all, [
    { nodeId: 'n-one', says: 'here' },
    { nodeId: 'other', says: 'fine' },
    { nodeId: 'n-three', says: 'failed: not now' },
    { nodeId: 'n-four', says: 'failed: it sent an unexpected answer' },
    { nodeId: 'n-five', says: 'failed: it gives no sign of life' },
    { nodeId: 'n-six', says: 'failed: it did not answer completely within 20 s' },
    { nodeId: 'n-seven', says: 'failed: the link broke' }
  ])
  t.match(two.asked, [{ method: 'POST', path: '/do', body: { a: 1 }, caller, timeoutMs: 20_000 }])
  t.equal(six.asked[0]?.signal?.aborted, true, 'the request to the slow one was ended')
})

t.test('eachNode: an own failure is told like that of another node', async (t) => {
  const one = new Network().node('one')
  t.same(await each(one, manualClock(), { here: async () => { throw new Error('disk on fire') } }),
    [{ nodeId: 'n-one', says: 'failed: disk on fire' }])
})

t.test('eachNode: an answer that cannot be read is a failure of that node', async (t) => {
  const net = new Network()
  const one = net.node('one')
  net.node('two', () => json(200, {}))
  const read = (body: unknown): Said => ({ nodeId: 'two', says: (body as { nodes: string[] }).nodes[0] })
  t.match(await each(one, manualClock(), { read }), [{}, { nodeId: 'n-two', says: /^failed: / }])
})
