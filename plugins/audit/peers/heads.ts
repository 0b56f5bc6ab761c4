import { isHash } from '../chain/record.js'
import type { Head } from '../chain/verify.js'

export interface AnnouncedHeads {
  /** Announced heads, newest last, with increasing `seq`. */
  readonly heads: readonly Head[]
  /** A later announcement that contradicts the known heads, or null. */
  readonly contradiction: Head | null
}

/** Maximum number of heads stored per node; the oldest are dropped. */
const HEADS = 32
/** Maximum number of nodes with stored heads, including removed nodes. */
const NODES = 256

/** Validates a received head; null if it is invalid. */
export function readHead (message: unknown): Head | null {
  const { seq, hash } = (message ?? {}) as Partial<Head>
  return Number.isSafeInteger(seq) && seq! > 0 && isHash(hash) ? { seq: seq!, hash } : null
}

/** Heads that other nodes have announced and cannot retract. Does no I/O. */
export class Heads {
  readonly #nodes: Map<string, AnnouncedHeads>

  constructor (kept: Readonly<Record<string, AnnouncedHeads>> = {}) {
    this.#nodes = new Map(Object.entries(kept))
  }

  hear (node: string, head: Head): 'new' | 'known' | 'contradiction' {
    const heard = this.#nodes.get(node) ?? { heads: [], contradiction: null }
    const last = heard.heads.at(-1)
    if (last !== undefined && head.seq <= last.seq) {
      if (head.seq === last.seq && head.hash === last.hash) return 'known'
      this.#nodes.set(node, { ...heard, contradiction: heard.contradiction ?? head })
      return 'contradiction'
    }
    if (last === undefined && this.#nodes.size >= NODES) return 'known'
    this.#nodes.set(node, { ...heard, heads: [...heard.heads.slice(1 - HEADS), head] })
    return 'new'
  }

  of (node: string): AnnouncedHeads { return this.#nodes.get(node) ?? { heads: [], contradiction: null } }

  all (): Record<string, AnnouncedHeads> { return Object.fromEntries(this.#nodes) }
}
