import t from 'tap'
import { allChunks, bitmapOf, chunksIn, Swarm, type Supplier } from '../transfer/swarm.js'
import { RateMeter } from '../transfer/progress.js'
import { pauseMs } from '../transfer/source-reader.js'

const store: Supplier = { id: 'store', kind: 'store', has: () => true }
const peer = (swarm: Swarm, id: string): Supplier => ({ id, kind: 'peer', has: (i) => swarm.holds(id, i) })
const setOf = (...chunks: number[]): Set<number> => new Set(chunks)
const none = new Set<number>()
const first = (): number => 0

t.test('bitmaps', async (t) => {
  const bytes = bitmapOf([0, 7, 8, 19], 20)
  t.same([...bytes], [0b10000001, 1, 0b1000])
  t.same([...chunksIn(bytes, 20)!], [0, 7, 8, 19])
  t.equal(chunksIn(new Uint8Array(2), 20), undefined)
  t.equal(chunksIn(new Uint8Array([255, 255, 255]), 20)!.size, 20, 'what is beyond the last does not count')
  t.equal(allChunks(0).size, 0)
})

t.test('from the store: in order when alone', async (t) => {
  const swarm = new Swarm(5)
  t.equal(swarm.pick(store, setOf(2, 3, 4), none, () => 0.9, 0), 2)
  t.equal(swarm.pick(store, setOf(2, 3, 4), new Set([2]), () => 0.9, 0), 3)
  t.equal(swarm.pick(store, setOf(1), new Set([1]), first, 0), undefined, 'in flight')
  t.equal(swarm.pick(store, setOf(), none, first, 0), undefined)
  t.equal(swarm.pick({ ...store, has: () => false }, setOf(1), none, first, 0), undefined)
})

t.test('from the store: what nobody has or claims, from a random place', async (t) => {
  const swarm = new Swarm(8)
  swarm.setPeer('b', new Uint8Array([0b00001111]))
  t.equal(swarm.pick(store, allChunks(8), none, () => 0.8, 0), 6)
  t.equal(swarm.pick(store, allChunks(8), new Set([6, 7]), () => 0.8, 0), 4, 'round to the beginning')
  t.equal(swarm.pick(store, allChunks(8), none, first, 0), 4, 'past those that a peer has')
  swarm.taken('c', 5, 1000)
  const missing = setOf(0, 5)
  t.equal(swarm.pick(store, missing, none, first, 1001), 0, 'rather what a peer has than what is claimed')
  t.equal(swarm.pick(store, missing, new Set([0]), first, 1001), 5, 'claimed, but nothing else is left')
  t.equal(swarm.pick(store, missing, none, first, 31_000), 5, 'a claim ends after 30 s')
})

t.test('a claim ends when the claimant has the chunk, or is gone', async (t) => {
  const swarm = new Swarm(3)
  swarm.taken('b', 0, 0)
  swarm.taken('c', 1, 0)
  swarm.taken('c', 77, 0)
  t.equal(swarm.pick(store, setOf(0, 1, 2), none, first, 1), 2)
  swarm.dropPeer('c')
  t.equal(swarm.pick(store, setOf(0, 1), none, first, 1), 1)
  swarm.got('b', 0)
  t.equal(swarm.pick(store, setOf(0), none, first, 1), 0)
})

t.test('from a peer: the rarest it has', async (t) => {
  const swarm = new Swarm(4)
  let changes = 0
  const stop = swarm.onChange(() => { changes++ })
  t.ok(swarm.setPeer('a', 'all'))
  t.notOk(swarm.setPeer('a', new Uint8Array(9)), 'of another length')
  swarm.setPeer('b', new Uint8Array([0b0011]))
  swarm.got('c', 2)
  swarm.got('c', 2)
  swarm.got('c', 99)
  t.equal(changes, 3)
  stop()
  t.equal(swarm.pick(peer(swarm, 'a'), allChunks(4), none, first, 0), 3)
  t.equal(swarm.pick(peer(swarm, 'b'), allChunks(4), none, first, 0), 0)
  t.equal(swarm.pick(peer(swarm, 'c'), allChunks(4), none, first, 0), 2)
  t.equal(swarm.pick(peer(swarm, 'nobody'), allChunks(4), none, first, 0), undefined)
  swarm.setPeer('a', new Uint8Array([0b0100]))
  swarm.dropPeer('b')
  t.same(swarm.peers().sort(), ['a', 'c'])
  t.equal(swarm.pick(store, allChunks(4), new Set([0, 1, 3]), first, 0), 2)
  t.equal(changes, 3, 'no more told')
})

t.test('the rate of a source over the time spent waiting for it', async (t) => {
  const meter = new RateMeter(60_000)
  meter.add(0, 0)
  meter.add(59_999, 30_000)
  t.ok(meter.rate(60_000) < 1000)
  meter.add(119_999, 90_000)
  t.equal(meter.rate(120_000), 1000, 'a window of its own')
  t.equal(meter.rate(180_000), 0, 'nothing came')
})

t.test('backoff doubles up to the most, and is jittered', async (t) => {
  const limits = { backoffMs: 500, backoffMaxMs: 30_000 }
  t.same([1, 2, 3, 9].map((n) => pauseMs(n, limits, () => 1)), [500, 1000, 2000, 30_000])
  t.same([1, 9].map((n) => pauseMs(n, limits, () => 0)), [250, 15_000])
})

interface Node {
  id: string
  swarm: Swarm
  missing: Set<number>
  flying: Map<number, { from: string, left: number }>
}

/**
 * Simulates nodes that fetch a model in parallel in virtual time. The store and each node upload one chunk
 * per tick; announcements arrive a tick later. Returns the ticks until all nodes have all chunks.
 */
function simulate (nodes: number, chunks: number, random: () => number): number {
  const all: Node[] = Array.from({ length: nodes }, (_, n) => ({
    id: `n${n}`, swarm: new Swarm(chunks), missing: allChunks(chunks), flying: new Map()
  }))
  for (const a of all) for (const b of all) if (a !== b) a.swarm.setPeer(b.id, bitmapOf([], chunks))
  let mail: Array<() => void> = []
  const others = (node: Node): Node[] => all.filter((other) => other !== node)
  const begin = (node: Node, now: number): void => {
    const sources = [...others(node).map(({ id }) => peer(node.swarm, id)), store]
    for (const source of sources) {
      const busy = [...node.flying.values()].filter(({ from }) => from === source.id).length
      const chunk = busy < 2 ? node.swarm.pick(source, node.missing, node.flying, random, now) : undefined
      if (chunk === undefined) continue
      node.flying.set(chunk, { from: source.id, left: 1 })
      if (source !== store) continue
      mail.push(() => { for (const other of others(node)) other.swarm.taken(node.id, chunk, now) })
    }
  }
  const advance = (): void => {
    for (const from of ['store', ...all.map(({ id }) => id)]) {
      const flights = all.flatMap((node) => [...node.flying].filter(([, f]) => f.from === from)
        .map(([chunk, flight]) => ({ node, chunk, flight })))
      for (const { node, chunk, flight } of flights) {
        flight.left -= 1 / flights.length
        if (flight.left > 1e-9) continue
        node.flying.delete(chunk)
        node.missing.delete(chunk)
        mail.push(() => { for (const other of others(node)) other.swarm.got(node.id, chunk) })
      }
    }
  }
  let tick = 0
  for (; all.some(({ missing }) => missing.size > 0) && tick < 100 * chunks; tick++) {
    const due = mail
    mail = []
    for (const deliver of due) deliver()
    for (const node of all) for (let slot = 0; slot < 2; slot++) begin(node, tick * 1000)
    advance()
  }
  return tick
}

t.test('three nodes share one copy\'s worth of the store\'s uplink', async (t) => {
  for (let seed = 1; seed <= 10; seed++) {
    let x = seed
    const random = (): number => (x = (x * 48271) % 2147483647) / 2147483647
    const chunks = 128
    const ticks = simulate(3, chunks, random)
    t.ok(ticks <= 1.3 * chunks, `seed ${seed}: ${ticks} ticks for ${chunks} chunks`)
  }
  t.ok(simulate(1, 50, first) <= 52, 'one node alone needs one copy\'s time')
})
