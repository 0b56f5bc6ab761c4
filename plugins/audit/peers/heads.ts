import { isHash } from '../chain/record.js'
import type { Head } from '../chain/verify.js'

/** A node's announcements of its chain. */
export interface AnnouncedHeads {
  /** Newest last, with rising numbers. */
  readonly heads: readonly Head[]
  /** A later announcement that does not fit the newest head; null without one. */
  readonly contradiction: Head | null
}

/** Most heads of one node; the newest ones. */
const HEADS = 32
/** Nodes that are remembered, removed ones too. */
const NODES = 256

/** A head as another node sends it; null for anything else. */
export function readHead (message: unknown): Head | null {
  const { seq, hash } = (message ?? {}) as Partial<Head>
  return Number.isSafeInteger(seq) && seq! > 0 && isHash(hash) ? { seq: seq!, hash } : null
}

/** The announced heads of other nodes' chains, which they cannot take back. Pure. */
export class Heads {
  readonly #nodes: Map<string, AnnouncedHeads>

  constructor (kept: Readonly<Record<string, AnnouncedHeads>> = {}) {
    this.#nodes = new Map(Object.entries(kept))
  }

  /** Takes an announcement: a new head, a known one, or a contradiction. */
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

  /** For the disk. */
  all (): Record<string, AnnouncedHeads> { return Object.fromEntries(this.#nodes) }
}
