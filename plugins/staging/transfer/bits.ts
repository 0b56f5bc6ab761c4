/** A set of chunk numbers 0..count-1 as a bitmap; bit i is bit `i % 8` of byte `i / 8`. */
export class ChunkBits {
  readonly count: number
  readonly bytes: Uint8Array
  #size = 0

  constructor (count: number) {
    this.count = count
    this.bytes = new Uint8Array(Math.ceil(count / 8))
  }

  /** The set that holds every chunk. */
  static all (count: number): ChunkBits {
    const bits = new ChunkBits(count)
    for (let i = 0; i < count; i++) bits.add(i)
    return bits
  }

  /** Reads a bitmap of another node; undefined when its length is not that of `count` chunks. */
  static read (bytes: Uint8Array, count: number): ChunkBits | undefined {
    if (bytes.length !== Math.ceil(count / 8)) return undefined
    const bits = new ChunkBits(count)
    for (let i = 0; i < count; i++) if ((bytes[i >> 3]! & (1 << (i & 7))) !== 0) bits.add(i)
    return bits
  }

  /** How many chunks are in the set. */
  get size (): number { return this.#size }

  has (i: number): boolean { return (this.bytes[i >> 3]! & (1 << (i & 7))) !== 0 }

  /** False when it was in already, or is no chunk. */
  add (i: number): boolean {
    if (i < 0 || i >= this.count || this.has(i)) return false
    this.bytes[i >> 3]! |= 1 << (i & 7)
    this.#size++
    return true
  }

  /** False when it was not in. */
  delete (i: number): boolean {
    if (i < 0 || i >= this.count || !this.has(i)) return false
    this.bytes[i >> 3]! &= ~(1 << (i & 7))
    this.#size--
    return true
  }

  /** The first chunk in [from, to) that is in the set, or -1. */
  next (from: number, to = this.count): number {
    for (let i = from; i < to; i++) {
      if ((i & 7) === 0 && this.bytes[i >> 3] === 0) { i += 7; continue }
      if (this.has(i)) return i
    }
    return -1
  }
}
