import { spend } from './budget.js'
import { frameOf } from './machine.js'
import type { Config, Frame } from './machine.js'
import type { Trie } from './trie.js'

/** Masks kept at most, in bytes. */
const MAX_KEPT_BYTES = 32 * 1024 * 1024

/**
 * The tokens that may follow, as bit sets over the ids. What a frame allows is found in two parts. Inside
 * its own value (from a frame with the same rule and state, but a continuation that is not known: the
 * "hole") all tokens are tried once for all places of that kind; the few that leave the value
 * are then tried with what follows here (as XGrammar does, arXiv 2411.15100). Both are kept at the frames.
 */
export class Masks {
  readonly trie: Trie
  private readonly words: number
  private readonly kept: (() => void)[] = []

  constructor (trie: Trie, vocabulary: number) {
    this.trie = trie
    this.words = Math.ceil(vocabulary / 32)
  }

  /** The tokens that may come next. Not to be written to. */
  of (config: Config): Uint32Array {
    const [first] = config.frames
    if (config.frames.length === 1) return this.frameMask(first as Frame)
    const bits = new Uint32Array(this.words)
    spend(this.words / 4 * config.frames.length)
    for (const frame of config.frames) add(bits, this.frameMask(frame))
    return bits
  }

  private frameMask (frame: Frame): Uint32Array {
    if (frame.mask !== null) return frame.mask
    const bits = new Uint32Array(this.words)
    if (frame.rule !== null && frame.ret !== null) {
      const like = frameOf(frame.rule, frame.rule.alike(frame.state, this.trie.longest), frame.rule.hole)
      const inner = this.inner(like)
      bits.set(inner.bits)
      const after = frame.ret.alone
      for (const node of inner.exits) this.walk(node + 1, this.trie.end[node] as number, after, bits, null)
      if (frame.complete) add(bits, this.frameMask(frame.ret))
    }
    frame.mask = bits
    this.keep(() => { frame.mask = null })
    return bits
  }

  private inner (frame: Frame): { bits: Uint32Array, exits: readonly number[] } {
    if (frame.inner !== null) return frame.inner
    const bits = new Uint32Array(this.words)
    const exits: number[] = []
    this.walk(0, this.trie.byte.length, frame.alone, bits, exits)
    const inner = { bits, exits }
    frame.inner = inner
    this.keep(() => { frame.inner = null })
    return inner
  }

  /** Marks the tokens of nodes from `from` to `to` (whole branches) that fit after `config`. */
  private walk (from: number, to: number, config: Config, bits: Uint32Array, exits: number[] | null): void {
    const { byte, end, first, ids } = this.trie
    for (let node = from; node < to; node = end[node] as number) {
      spend(2)
      const next = config.step(byte[node] as number)
      if (next === null) continue
      for (let i = first[node] as number; i < (first[node + 1] as number); i++) {
        const id = ids[i] as number
        bits[id >>> 5] = (bits[id >>> 5] as number) | (1 << (id & 31))
      }
      if (exits !== null && next.frames.some(leaves)) exits.push(node)
      if (node + 1 < (end[node] as number)) this.walk(node + 1, end[node] as number, next, bits, exits)
    }
  }

  private keep (drop: () => void): void {
    this.kept.push(drop)
    if (this.kept.length * this.words * 4 > MAX_KEPT_BYTES) {
      this.kept.splice(0, this.kept.length >> 1).forEach((f) => f())
    }
  }
}

/** Whether the value may be over at this frame, so that the unknown continuation goes on. */
function leaves (frame: Frame): boolean {
  return frame.rule === null || (frame.complete && frame.ret !== null && leaves(frame.ret))
}

function add (to: Uint32Array, from: Uint32Array): void {
  for (let i = 0; i < to.length; i++) to[i] = (to[i] as number) | (from[i] as number)
}
