import { Readable } from 'node:stream'
import t from 'tap'
import { kernelError } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { askNode, eachNode, messageOf } from '../peers/ask.js'
import { json, Network } from './manager-kit.js'
import type { Caller, MemberResponse } from '../../../kernel/index.js'
import type { ManualClock } from '../../../kernel/testing/index.js'
import type { EachNode } from '../peers/ask.js'
import type { NetNode, Serve } from './manager-kit.js'

const caller: Caller = { id: 'me', mode: 'direct', authorities: new Set(['read']) }
const get = { method: 'GET', path: '/x', caller }

/** Never answers; ends with its request. */
const mute: Serve = async ({ signal }) => await new Promise<MemberResponse>((_resolve, reject) => {
  signal?.addEventListener('abort', () => { reject(new Error('aborted')) })
})

t.test('askNode reads JSON of any status', async (t) => {
  const net = new Network()
  const one = net.node('one')
  net.node('two', () => json(418, { error: { message: 'no coffee' } }))
  const answer = await askNode(one, 'i-two', get)
  t.match(answer, { status: 418, body: { error: { message: 'no coffee' } } })
  t.equal(messageOf(answer), 'no coffee')
  for (const body of [null, 7, 'x', [], {}, { error: null }, { error: { message: 7 } }]) {
    t.equal(messageOf({ status: 500, body }), 'it answered 500', JSON.stringify(body))
  }
})

t.test('askNode refuses what is no JSON, what never ends and who is gone', async (t) => {
  const net = new Network()
  const one = net.node('one')
  const two = net.node('two', () =>
    ({ status: 200, headers: {}, body: Readable.from([Buffer.from('<html>')]) }))
  await t.rejects(askNode(one, 'i-two', get), SyntaxError)
  const block = Buffer.alloc(16 * 1024 * 1024, ' ')
  let given = 0
  const body = Readable.from((function * () { for (;;) { given++; yield block } })())
  two.serve = () => ({ status: 200, headers: {}, body })
  await t.rejects(askNode(one, 'i-two', get), { message: /more than 67108864 bytes/ })
  t.ok(body.destroyed, 'the rest is not asked for')
  t.ok(given < 30)
  net.lose('two')
  await t.rejects(askNode(one, 'i-two', get), { name: 'SvcError', reason: 'unreachable' })
})

interface Said { nodeId: string, says: unknown }

function each (cluster: NetNode, clock: ManualClock, more: Partial<EachNode<Said>> = {}): Promise<Said[]> {
  return eachNode<Said>({
    cluster, clock, caller, deadlineMs: 20_000,
    nodes: cluster.nodes(),
    here: async () => ({ nodeId: 'n-one', says: 'here' }),
    request: { method: 'POST', path: '/do', body: { a: 1 } },
    read: (body, { nodeId }) => ({ nodeId, says: body }),
    failed: ({ nodeId }, message) => ({ nodeId, says: `failed: ${message}` }),
    ...more
  })
}

t.test('eachNode: here, there, refused, broken, lost, too slow; in the order of the nodes', async (t) => {
  const net = new Network()
  const clock = manualClock()
  const one = net.node('one')
  const two = net.node('two', () => json(200, 'fine'))
  net.node('three', () => json(409, { error: { message: 'not now' } }))
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
    { nodeId: 'n-two', says: 'fine' },
    { nodeId: 'n-three', says: 'failed: not now' },
    { nodeId: 'n-four', says: /^failed: .*JSON/ },
    { nodeId: 'n-five', says: 'failed: five cannot be reached.' },
    { nodeId: 'n-six', says: 'failed: It did not answer within 20 s.' },
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
  const read = (body: unknown, { nodeId }: { nodeId: string }): Said =>
    ({ nodeId, says: (body as { nodes: string[] }).nodes[0] })
  t.match(await each(one, manualClock(), { read }), [{}, { nodeId: 'n-two', says: /^failed: / }])
})
