import { isHash } from '../chain/record.js'
import type { Head } from '../chain/verify.js'

/** What a node has told of its chain. */
export interface Heard {
  /** Newest last, with rising numbers. */
  readonly heads: readonly Head[]
  /** What it told later and does not go with the newest head; null as long as all went together. */
  readonly contradiction: Head | null
}

/** Heads of one node that are kept: the newest ones. */
const HEADS = 32
/** Nodes that are remembered, removed ones too. */
const NODES = 256

/** A head as another node sends it; null for anything else. */
export function readHead (message: unknown): Head | null {
  const { seq, hash } = (message ?? {}) as Partial<Head>
  return Number.isSafeInteger(seq) && seq! > 0 && isHash(hash) ? { seq: seq!, hash } : null
}

/** What the others told of their chains: what they have told they cannot take back. Pure. */
export class Heads {
  readonly #nodes: Map<string, Heard>

  constructor (kept: Readonly<Record<string, Heard>> = {}) {
    this.#nodes = new Map(Object.entries(kept))
  }

  /** Takes what a node tells: it is to be kept, was known, or is not what it told before. */
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

  of (node: string): Heard { return this.#nodes.get(node) ?? { heads: [], contradiction: null } }

  /** For the disk. */
  all (): Record<string, Heard> { return Object.fromEntries(this.#nodes) }
}
