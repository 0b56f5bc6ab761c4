import t from 'tap'
import type { Channel, Cluster, NodeView } from '../../../kernel/index.js'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import {
  GATHER_MS, KEPT_MAX, mergeTasks, MESSAGE_TASKS_MAX, SEND_MS, TaskGossip, type GossipMessage
} from '../routing/remote/gossip.js'
import { HASHES_MAX, PrefixTable } from '../routing/prefixes.js'
import { TASK_LINGER_MS, TaskTable, type Task, type TaskStatus } from '../routing/tasks.js'

interface Node {
  id: string
  tasks: TaskTable
  prefixes: PrefixTable
  gossip: TaskGossip
  receive: (from: string, message: unknown) => void
  /** For each link that closed, the node at its other end and the tasks open on that node. */
  missing: [string, [taskId: string, asker: string | null][]][]
}

/** In-memory nodes with links that the test opens, closes and blocks. */
class Net {
  readonly clock: ManualClock = manualClock()
  readonly nodes = new Map<string, Node>()
  readonly sent: { from: string, to: string, message: GossipMessage }[] = []
  readonly links = new Set<string>()
  /** Links that currently accept no message. */
  readonly full = new Set<string>()
  readonly #peers = new Map<string, (change: { installId: string, up: boolean }) => void>()

  join (id: string): Node {
    const clusterOf = (): Pick<Cluster, 'channel' | 'nodes' | 'onPeers'> => ({
      nodes: () => [id, ...this.nodes.keys()].map((other) =>
        ({ installId: other, self: other === id, live: other === id || this.linked(id, other) }) as NodeView),
      onPeers: (fn) => {
        this.#peers.set(id, fn)
        return () => { this.#peers.delete(id) }
      },
      channel: <T>(_name: string, receive: (from: string, message: T) => void): Channel<T> => {
        node.receive = receive as Node['receive']
        return {
          send: (to, message) => this.#send(id, to, message),
          broadcast: (message) => [...this.nodes.keys()].filter((to) => this.#send(id, to, message)).length,
          close: () => { node.receive = () => {} }
        }
      }
    })
    const node = { id, receive: () => {} } as unknown as Node
    node.tasks = new TaskTable(() => this.clock.mono(), () => { node.gossip.changed() })
    node.prefixes = new PrefixTable()
    node.missing = []
    node.gossip = new TaskGossip({
      cluster: clusterOf(), clock: this.clock, tasks: node.tasks, prefixes: node.prefixes,
      missing: (from, open) => {
        node.missing.push([from, open.map(({ task: { taskId }, requester }) => [taskId, requester])])
      }
    })
    this.nodes.set(id, node)
    return node
  }

  linked (a: string, b: string): boolean { return this.links.has([a, b].sort().join()) }

  link (a: string, b: string, up = true): void {
    const name = [a, b].sort().join()
    if (up) this.links.add(name)
    else this.links.delete(name)
    this.#peers.get(a)?.({ installId: b, up })
    this.#peers.get(b)?.({ installId: a, up })
  }

  #send (from: string, to: string, message: unknown): boolean {
    if (from === to || !this.linked(from, to) || this.full.has(to)) return false
    // Copied through JSON, as between real nodes.
    const copy = JSON.parse(JSON.stringify(message)) as GossipMessage
    if (copy.tasks !== undefined) this.sent.push({ from, to, message: copy })
    this.nodes.get(to)!.receive(from, copy)
    return true
  }
}

const about = { commandId: 'c', instanceId: 'i', modelId: 'acme/x', capability: 'tts', createdAt: 'T' }
const add = (node: Node, taskId: string, runnerId = 'r', member: string | null = null): void => {
  node.tasks.add({ taskId, ...about }, runnerId, { caller: null, member })
}
const shown = ({ gossip }: Node): Record<string, string> =>
  Object.fromEntries(gossip.tasks().map(({ taskId, status }) => [taskId, status]))

async function pair (): Promise<{ net: Net, a: Node, b: Node }> {
  const net = new Net()
  const [a, b] = [net.join('A'), net.join('B')]
  net.link('A', 'B')
  await net.clock.advance(SEND_MS)
  return { net, a, b }
}

t.test('a node hears of the tasks and the load of another one, apart from its own', async (t) => {
  const { net, a, b } = await pair()
  t.equal(a.gossip.load('B', 'r'), 0, 'told that there is none')
  add(b, 'own')
  add(b, 'of-a', 'r', 'A')
  add(b, 'of-c', 'r', 'C')
  b.tasks.start('own')
  await net.clock.advance(SEND_MS)
  t.equal(a.gossip.load('B', 'r'), 2, 'without the task that A itself has given it')
  t.equal(a.gossip.load('B', 'other'), 0)
  t.equal(a.gossip.load('C', 'r'), null, 'nobody told')
  t.same(shown(a), { own: 'Running', 'of-a': 'Pending', 'of-c': 'Pending' })
  b.tasks.finish('own', 'Complete')
  await net.clock.advance(SEND_MS)
  t.equal(a.gossip.load('B', 'r'), 1)
  t.match(shown(a), { own: 'Complete' })
  t.same(shown(b), {}, 'nobody is told what he told')
  t.notMatch(JSON.stringify(net.sent), /payload|prompt|media/)
})

t.test('at most every half second, and only when something changed', async (t) => {
  const { net, b } = await pair()
  net.sent.length = 0
  await net.clock.advance(SEND_MS * 10)
  t.equal(net.sent.length, 0)
  add(b, 't0')
  await net.clock.advance(GATHER_MS)
  t.equal(net.sent.length, 1, 'soon after a quiet time')
  for (let n = 1; n <= 20; n++) {
    add(b, `t${n}`)
    await net.clock.advance(SEND_MS / 10)
  }
  t.ok(net.sent.length <= 4, `${net.sent.length} messages in two seconds`)
  await net.clock.advance(SEND_MS)
  t.equal(net.sent.flatMap(({ message }) => message.tasks).length, 21, 'each change once')
})

t.test('a large table goes in portions; a node that links up gets all of it', async (t) => {
  const net = new Net()
  const b = net.join('B')
  for (let n = 0; n < MESSAGE_TASKS_MAX * 2 + 5; n++) add(b, `t${n}`)
  const a = net.join('A')
  net.link('A', 'B')
  await net.clock.advance(SEND_MS * 4)
  const told = net.sent.filter(({ from }) => from === 'B').map(({ message }) => message)
  t.same(told.map(({ whole, tasks }) => [whole, tasks.length]),
    [[true, MESSAGE_TASKS_MAX], [false, MESSAGE_TASKS_MAX], [false, 5]])
  t.equal(a.gossip.load('B', 'r'), MESSAGE_TASKS_MAX * 2 + 5)
  t.equal(Object.keys(shown(a)).length, MESSAGE_TASKS_MAX * 2 + 5)
})

t.test('a link that closes leaves behind what the other node had open, and who gave it', async (t) => {
  const { net, a, b } = await pair()
  add(b, 'own')
  add(b, 'of-c', 'r', 'C')
  add(b, 'over')
  await net.clock.advance(SEND_MS)
  b.tasks.finish('over', 'Complete')
  b.gossip.close()
  net.link('A', 'B', false)
  t.same(a.missing, [['B', [['own', null], ['of-c', 'C']]]], 'what ended is told before the close')
  t.same(b.missing, [])
})

t.test('a node that is gone is forgotten, and told everything when it is back', async (t) => {
  const { net, a, b } = await pair()
  add(b, 'x')
  await net.clock.advance(SEND_MS)
  net.link('A', 'B', false)
  t.equal(a.gossip.load('B', 'r'), null)
  t.same(shown(a), {})
  b.tasks.finish('x', 'Failed')
  add(b, 'y')
  net.link('A', 'B')
  await net.clock.advance(SEND_MS)
  t.equal(a.gossip.load('B', 'r'), 1)
  t.same(shown(a), { x: 'Failed', y: 'Pending' })
})

t.test('whoever could not be told is told everything again', async (t) => {
  const { net, a, b } = await pair()
  net.full.add('A')
  add(b, 'x')
  await net.clock.advance(SEND_MS * 3)
  t.same(shown(a), {})
  net.full.delete('A')
  await net.clock.advance(SEND_MS)
  t.same(shown(a), { x: 'Pending' })
  t.equal(net.sent.at(-1)?.message.whole, true)
})

t.test('a plugin that starts late asks for the whole', async (t) => {
  const net = new Net()
  const b = net.join('B')
  add(b, 'x')
  net.links.add('A,B')
  const a = net.join('A')
  await net.clock.advance(SEND_MS)
  t.same(shown(a), { x: 'Pending' })
})

t.test('an instance\'s hashes go with its tasks, under one key; older nodes send none', async (t) => {
  const { net, a, b } = await pair()
  t.equal(a.prefixes.key, b.prefixes.key)
  const lead = b.prefixes.lead({ payload: { messages: [{ role: 'user', content: 'secret' }] }, session: 's' })
  b.prefixes.remember('i', lead.kept)
  add(b, 'x')
  await net.clock.advance(SEND_MS)
  t.same(a.prefixes.hashesOf('i'), lead.kept)
  t.equal(a.prefixes.rate('i', lead), 3)
  t.notMatch(JSON.stringify(net.sent), /secret/)
  const old: GossipMessage = { whole: false, loads: { r: 1 }, tasks: [], ended: [] }
  a.receive('B', old)
  t.same([a.gossip.load('B', 'r'), a.prefixes.hashesOf('i')], [1, lead.kept], 'an older node sends none')
  const hash = lead.kept[0]!
  const key = '0'.repeat(32)
  const wrong: object[] = [
    { key: 'x' }, { key: 7 }, { prefixes: [] }, { prefixes: { i: 7 } }, { prefixes: { i: hash.slice(1) } },
    { key, prefixes: { i: hash.repeat(HASHES_MAX + 1) } },
    { key, prefixes: Object.fromEntries(Array.from({ length: 129 }, (_, n) => [`i${n}`, hash])) }
  ]
  for (const more of wrong) {
    a.receive('B', { ...old, loads: { r: 9 }, ...more })
    t.equal(a.gossip.load('B', 'r'), 1, JSON.stringify(more).slice(0, 80))
  }
  t.not(a.prefixes.key, key)
})

t.test('a task that ended and was dropped in between does not stay open', async (t) => {
  const { net, a, b } = await pair()
  add(b, 'x')
  await net.clock.advance(SEND_MS)
  t.same(shown(a), { x: 'Pending' })
  b.tasks.finish('x', 'Complete')
  for (let n = 0; n < 200; n++) {
    add(b, `t${n}`)
    b.tasks.finish(`t${n}`, 'Complete')
  }
  await net.clock.advance(SEND_MS * 2)
  t.notOk('x' in shown(a))
})

t.test('what is over is shown for a while', async (t) => {
  const { net, a, b } = await pair()
  add(b, 'x')
  add(b, 'open')
  b.tasks.start('open')
  b.tasks.finish('x', 'Cancelled')
  await net.clock.advance(SEND_MS)
  t.same(shown(a), { x: 'Cancelled', open: 'Running' })
  await net.clock.advance(TASK_LINGER_MS)
  t.same(shown(a), { open: 'Running' })
})

t.test('nonsense is not heard', async (t) => {
  const { net, a, b } = await pair()
  const task: Task = { taskId: 'x', ...about, status: 'Running' }
  const good: GossipMessage = { whole: false, loads: { r: 1 }, tasks: [task], ended: [] }
  const many = Array.from({ length: MESSAGE_TASKS_MAX + 1 }, (_, n) => ({ ...task, taskId: `t${n}` }))
  const wrong: unknown[] = [
    null, 7, 'news', [], {}, { ...good, whole: 'yes' }, { ...good, loads: null },
    { ...good, loads: { r: -1 } }, { ...good, loads: { r: 1.5 } }, { ...good, loads: { r: '1' } },
    { ...good, loads: { r: 2 ** 53 } },
    { ...good, tasks: [{ ...task, status: 'Done' }] },
    { ...good, tasks: [{ ...task, modelId: 'x'.repeat(257) }] }, { ...good, tasks: [null] },
    { ...good, tasks: {} }, { ...good, tasks: many }, { ...good, ended: [1] },
    { ...good, loads: Object.fromEntries(many.map(({ taskId }) => [taskId, 1])) }
  ]
  for (const message of wrong) {
    a.receive('B', message)
    t.same([shown(a), a.gossip.load('B', 'r')], [{}, 0], JSON.stringify(message).slice(0, 80))
  }
  a.receive('B', { ...good, tasks: [{ ...task, prompt: 'secret' }], more: 1 })
  t.same([shown(a), a.gossip.load('B', 'r')], [{ x: 'Running' }, 1], 'what a newer version adds is ignored')
  t.strictSame(a.gossip.tasks(), [task])
  for (let n = 0; n < 20; n++) {
    const tasks = many.slice(0, MESSAGE_TASKS_MAX).map((one) => ({ ...one, taskId: `${n}-${one.taskId}` }))
    a.receive('B', { ...good, tasks })
  }
  t.equal(Object.keys(shown(a)).length, KEPT_MAX, 'and never more than so much')
  b.gossip.close()
  a.gossip.close()
  add(b, 'late')
  await net.clock.advance(SEND_MS)
  t.notOk('late' in shown(a), 'nothing is told after the end')
})

t.test('one view of a task that several nodes know', async (t) => {
  const task = (status: TaskStatus): Task[] => [{ taskId: 'x', ...about, status }]
  const merged = (own: Task[], given: Task[], told: Task[]): string | undefined =>
    mergeTasks(own, given, told)['x']?.Inference.status
  t.equal(merged([], task('Running'), []), 'Running', 'given away a moment ago')
  t.equal(merged([], task('Pending'), task('Running')), 'Running')
  t.equal(merged([], task('Failed'), task('Running')), 'Failed', 'its node was lost')
  t.equal(merged([], task('Cancelled'), task('Complete')), 'Complete', 'who served it knows best')
  t.equal(merged(task('Complete'), [], task('Running')), 'Complete')
  t.same(mergeTasks([], [], []), {})
})
