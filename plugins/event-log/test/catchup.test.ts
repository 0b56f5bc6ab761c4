import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../kernel/index.js'
import { findInStore, waitForQueue } from '../replication/start.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { EventLog } from '../log/log.js'
import { Replication } from '../replication/replication.js'
import { readMessage } from './cluster-twin.js'
import { restore, memoryStore } from '../store/opening.js'
import { chain, diskTest, everything, full, openRig, tempFolder } from './store-kit.js'
import type { Input, Outgoing, Search } from '../replication/messages.js'
import type { EventStore } from '../store/store.js'

/** Number of events that happen while a node is away, and maximum number of events in memory. */
const EVENTS = full ? 100_000 : 6_000
const RING = full ? 10_000 : 500
const ALL = ['a', 'b', 'c']

interface Peer { log: EventLog, store: EventStore, machine: Replication }

/** Real replications, logs and stores; messages are delivered at once, in order, while both ends run. */
class Cluster {
  readonly peers = new Map<string, Peer>()
  readonly folder: string
  readonly #t: Test
  #inputs: { to: string, input: Input }[] = []
  #sent: { to: string, message: Outgoing }[] = []
  #searches: Search[] = []
  #now = 0
  dropped = 0

  constructor (t: Test) {
    this.#t = t
    this.folder = tempFolder(t)
  }

  /** Starts a node with its earlier store; `stores` is false for a node without SQLite. */
  async start (id: string, stores = true): Promise<void> {
    const store = stores ? (await openRig(this.#t, join(this.folder, id))).store : memoryStore()
    const log = new EventLog(RING)
    restore(log, await store.read({ after: 0, limit: RING, newest: true }))
    log.onChange((change) => {
      if (change.type === 'append') store.append([change.entry])
      else store.cut(change.base?.idx ?? change.after)
    })
    this.peers.set(id, { log, store, machine: this.machine(id, log, store.reserved) })
    for (const other of this.peers.keys()) {
      if (other === id) continue
      this.give(id, { type: 'peerUp', peer: other })
      this.give(other, { type: 'peerUp', peer: id })
    }
  }

  machine (id: string, log: EventLog, reserved: number): Replication {
    return new Replication(log, {
      send: (to, message) => {
        this.#sent.push({ to, message })
        return true
      },
      find: (search) => { this.#searches.push(search) },
      wake: () => {},
      dropped: ({ count }) => { this.dropped += count }
    }, reserved)
  }

  async stop (id: string): Promise<void> {
    await this.peer(id).store.close()
    this.peers.delete(id)
    for (const other of this.peers.keys()) this.give(other, { type: 'peerDown', peer: id })
  }

  peer (id: string): Peer { return this.peers.get(id)! }

  give (to: string, input: Input): void { this.#inputs.push({ to, input }) }

  elect (sid: string, master: string): void {
    for (const id of this.peers.keys()) {
      this.give(id, { type: 'session', sid, isMaster: id === master, master })
    }
  }

  happen (id: string, count = 1): void {
    for (let i = 0; i < count; i++) {
      const submission = { id: randomUUID(), at: '2026-01-01T00:00:00.000Z', origin: id,
        event: { NodeJoined: { nodeId: id } } }
      this.give(id, { type: 'local', submission })
    }
  }

  async settle (ms = 1000): Promise<void> {
    for (let passed = 0; passed <= ms; passed += 500) {
      this.#now += 500
      for (const id of this.peers.keys()) this.give(id, { type: 'tick' })
      for (let next = this.#inputs.shift(); next !== undefined; next = this.#inputs.shift()) {
        await this.#step(next.to, next.input)
      }
    }
  }

  async #step (id: string, input: Input): Promise<void> {
    const peer = this.peers.get(id)
    if (peer === undefined) return
    peer.machine.step(input, this.#now)
    for (const { to, message } of this.#sent.splice(0)) {
      if (message.type === 'want') await waitForQueue(peer.store, systemClock)
      this.#send(id, to, message)
    }
    for (const search of this.#searches.splice(0)) {
      this.give(id, { type: 'found', search, found: await findInStore(peer.store, search.want.have) })
    }
  }

  #send (from: string, to: string, message: unknown): void {
    if (from === to || !this.peers.has(to)) return
    const copy = readMessage(JSON.parse(JSON.stringify(message)))!
    this.#inputs.push({ to, input: { type: 'message', from, message: copy } })
  }

  async live (ids: readonly string[], count: number): Promise<void> {
    for (let done = 0; done < count;) {
      for (const id of ids) {
        const part = Math.min(250, count - done)
        this.happen(id, part)
        done += part
      }
      await this.settle(0)
      for (const { store } of this.peers.values()) await store.flushed()
    }
    await this.settle()
  }
}

/** Checks that all nodes have the same log, in memory and on disk. */
async function agree (t: Test, cluster: Cluster, count: number): Promise<void> {
  const [first] = cluster.peers.values()
  const expected = await everything(first!.store)
  t.equal(expected.length, count, 'every event is there')
  t.ok(expected.every((entry, i) => entry.prev === (expected[i - 1]?.idx ?? 0)), 'without a gap')
  t.equal(new Set(expected.map(({ id }) => id)).size, count, 'once')
  for (const [id, { log, store }] of cluster.peers) {
    t.same(store.status().gaps, [], `${id} has no gap`)
    const chains = (await everything(store)).map(({ chain }) => chain)
    t.same(chains, expected.map(({ chain }) => chain), `${id} is equal`)
    t.same(log.last, first!.log.last, `${id} ends there`)
  }
  t.equal(cluster.dropped, 0)
}

diskTest(`a node that was away while ${EVENTS} events happened has all of them`, async (t) => {
  const cluster = new Cluster(t)
  for (const id of ALL) await cluster.start(id)
  cluster.elect('s1', 'a')
  await cluster.live(ALL, 300)
  await cluster.stop('c')
  await cluster.live(['a', 'b'], EVENTS)
  await cluster.start('c')
  cluster.elect('s1', 'a')
  cluster.happen('c')
  await cluster.settle()
  await agree(t, cluster, 301 + EVENTS)
})

diskTest('what the master does not have comes from another node', async (t) => {
  const cluster = new Cluster(t)
  await cluster.start('a', false)
  await cluster.start('b')
  await cluster.start('c')
  cluster.elect('s1', 'a')
  await cluster.live(ALL, 300)
  await cluster.stop('c')
  await cluster.live(['a', 'b'], RING * 3)
  await cluster.start('c')
  cluster.elect('s1', 'a')
  await cluster.settle(2000)
  const wanted = (await everything(cluster.peer('b').store)).map(({ chain }) => chain)
  t.equal(wanted.length, 300 + RING * 3)
  t.same((await everything(cluster.peer('c').store)).map(({ chain }) => chain), wanted)
  // If no node has the entries, the log restarts where the master's begins, and reports a gap.
  await cluster.stop('c')
  await cluster.live(['a'], RING * 3)
  await cluster.stop('b')
  await cluster.start('c')
  cluster.elect('s1', 'a')
  await cluster.settle(2000)
  const { log, store } = cluster.peer('c')
  t.same(log.last, cluster.peer('a').log.last)
  t.same(store.status().gaps, [[301 + RING * 3, cluster.peer('a').log.oldest.idx]])
})

diskTest('the whole cluster restarts: the log goes on, and no index is given twice', async (t) => {
  const cluster = new Cluster(t)
  for (const id of ALL) await cluster.start(id)
  cluster.elect('s1', 'a')
  await cluster.live(ALL, 700)
  await cluster.stop('c')
  await cluster.live(['a', 'b'], RING * 2)
  const { last } = cluster.peer('a').log
  await cluster.stop('a')
  await cluster.stop('b')
  // The node with the shortest log starts first and becomes master.
  for (const id of ['c', 'a', 'b']) await cluster.start(id)
  t.same(cluster.peer('a').log.last, last)
  cluster.elect('s2', 'c')
  cluster.happen('c')
  await cluster.live(ALL, 100)
  await agree(t, cluster, 801 + RING * 2)
  t.equal((await everything(cluster.peer('c').store)).at(-101)!.idx, last.idx + 1)
})

t.test('an index that was set aside by a node which crashed is given by nobody', async (t) => {
  const cluster = new Cluster(t)
  for (const id of ['a', 'b']) await cluster.start(id)
  cluster.peer('b').machine = cluster.machine('b', cluster.peer('b').log, 5000)
  cluster.give('b', { type: 'peerUp', peer: 'a' })
  cluster.elect('s1', 'a')
  cluster.happen('a')
  await cluster.settle()
  t.equal(cluster.peer('a').log.last.idx, 5001)
})

t.test('one that catches up asks no faster than its disk writes', async (t) => {
  const clock = manualClock()
  let queued = 4_999
  let flushed = (): void => {}
  const store = { status: () => ({ ...memoryStore().status(), queued }),
    flushed: () => new Promise<void>((resolve) => { flushed = resolve }) }
  t.equal(waitForQueue(store, clock), null)
  queued = 5_000
  const first = waitForQueue(store, clock)
  flushed()
  await first
  const second = waitForQueue(store, clock)
  await clock.advance(2_000)
  await second
  t.pass('a disk that does not answer is not waited for for ever')
})

diskTest('a page of the store', async (t) => {
  const { store } = await openRig(t, tempFolder(t))
  const entries = chain(1300)
  const later = chain(5, { after: { idx: 1400, chain: 'x' } })
  store.append([...entries, ...later])
  await store.flushed()
  const find = async (...have: { idx: number, chain: string }[]): Promise<unknown> => {
    const { base, entries } = await findInStore(store, have)
    return [base?.idx ?? null, entries[0]?.idx ?? null, entries.length]
  }
  const [e10, e1290, e1300] = [entries[9]!, entries[1289]!, entries[1299]!]
  t.same(await find(e10), [10, 11, 500])
  const others = [{ idx: 1295, chain: 'other' }, { idx: 1290, chain: 'other' }]
  t.same(await find(...others, e1290, e10), [1290, 1291, 10])
  t.same(await find(e1300), [1300, null, 0], 'a gap follows')
  t.same(await find({ idx: 0, chain: '' }), [0, 1, 500], 'one that is new')
  t.same(await find({ idx: 1350, chain: 'x' }), [null, null, 0])
  t.same(await find(), [null, null, 0])
})
