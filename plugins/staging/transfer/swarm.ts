/** Milliseconds for which a node's claim keeps other nodes from fetching the same chunk from the store. */
export const CLAIM_MS = 30_000
/** Added to the cost of a chunk that another node has claimed, so that it is chosen last. */
const CLAIMED = 1 << 20

export interface Supplier {
  readonly id: string
  readonly kind: 'store' | 'peer'
  has (chunk: number): boolean
}

/**
 * The chunks that other nodes have or fetch, and the choice of the next one. The store's uplink is the
 * bottleneck when several nodes fetch simultaneously, so each asks the store for chunks that no other node
 * has or claims, and the nodes exchange the rest. Pure: time and randomness are arguments.
 */
export class Swarm {
  readonly count: number
  readonly #peers = new Map<string, Set<number>>()
  readonly #rarity: Uint16Array
  readonly #claims = new Map<number, { peer: string, until: number }>()
  readonly #listeners = new Set<() => void>()

  constructor (count: number) {
    this.count = count
    this.#rarity = new Uint16Array(count)
  }

  /** Returns false for a bitmap of the wrong length, which is ignored. */
  setPeer (id: string, bits: Uint8Array | 'all'): boolean {
    const held = bits === 'all' ? allChunks(this.count) : chunksIn(bits, this.count)
    if (held === undefined) return false
    this.#forgetBits(id)
    this.#peers.set(id, held)
    for (const chunk of held) this.#gained(id, chunk)
    this.#changed()
    return true
  }

  /** Records that a node has a chunk; ignores invalid chunk numbers. */
  got (id: string, chunk: number): void {
    const held = this.#peers.get(id) ?? new Set()
    if (chunk < 0 || chunk >= this.count || held.has(chunk)) return
    this.#peers.set(id, held.add(chunk))
    this.#gained(id, chunk)
    this.#changed()
  }

  /** Records that a node fetches a chunk from the store; `now` is monotonic ms. */
  taken (id: string, chunk: number, now: number): void {
    if (chunk >= 0 && chunk < this.count) this.#claims.set(chunk, { peer: id, until: now + CLAIM_MS })
  }

  dropPeer (id: string): void {
    this.#forgetBits(id)
    for (const [chunk, claim] of this.#claims) if (claim.peer === id) this.#claims.delete(chunk)
    this.#changed()
  }

  holds (id: string, chunk: number): boolean { return this.#peers.get(id)?.has(chunk) === true }

  peers (): string[] { return [...this.#peers.keys()] }

  onChange (fn: () => void): () => void {
    this.#listeners.add(fn)
    return () => { this.#listeners.delete(fn) }
  }

  /**
   * Picks the next chunk to request from a source: the rarest missing chunk that is not in flight. From the
   * store, chunks claimed by other nodes come last. If there are peers, ties are broken at random, so that
   * nodes ask the store for different chunks; otherwise in file order, which suits disks. `missing` must be
   * in ascending order.
   */
  pick (
    source: Supplier, missing: ReadonlySet<number>, inFlight: { has (chunk: number): boolean },
    random: () => number, now: number
  ): number | undefined {
    const start = this.#peers.size === 0 ? 0 : Math.floor(random() * this.count)
    const lowest = source.kind === 'peer' ? 1 : 0
    let best: number | undefined
    let bestCost = Infinity
    // The chunks from `start` on, then those before it.
    for (const wraps of [false, true]) {
      for (const i of missing) {
        if ((i < start) !== wraps || inFlight.has(i) || !source.has(i)) continue
        const cost = this.#cost(source, i, now)
        if (cost < bestCost) [best, bestCost] = [i, cost]
        if (bestCost <= lowest) return best
      }
    }
    return best
  }

  #cost (source: Supplier, chunk: number, now: number): number {
    const rarity = this.#rarity[chunk]!
    if (source.kind === 'peer') return rarity
    const claim = this.#claims.get(chunk)
    if (claim === undefined) return rarity
    if (claim.until > now) return CLAIMED + rarity
    this.#claims.delete(chunk)
    return rarity
  }

  #gained (id: string, chunk: number): void {
    this.#rarity[chunk]!++
    if (this.#claims.get(chunk)?.peer === id) this.#claims.delete(chunk)
  }

  #forgetBits (id: string): void {
    const held = this.#peers.get(id)
    if (held === undefined) return
    for (const chunk of held) this.#rarity[chunk]!--
    this.#peers.delete(id)
  }

  #changed (): void { for (const fn of this.#listeners) fn() }
}

/** The chunk numbers 0..count-1. */
export const allChunks = (count: number): Set<number> => new Set(Array.from({ length: count }, (_, i) => i))

/** Chunk numbers as a bitmap for messages; chunk i is bit `i % 8` of byte `floor(i / 8)`. */
export function bitmapOf (chunks: Iterable<number>, count: number): Uint8Array {
  const bytes = new Uint8Array(Math.ceil(count / 8))
  for (const i of chunks) bytes[i >> 3]! |= 1 << (i & 7)
  return bytes
}

/** Parses a bitmap; undefined if its length is wrong. */
export function chunksIn (bytes: Uint8Array, count: number): Set<number> | undefined {
  if (bytes.length !== Math.ceil(count / 8)) return undefined
  return new Set([...allChunks(count)].filter((i) => (bytes[i >> 3]! & (1 << (i & 7))) !== 0))
}
