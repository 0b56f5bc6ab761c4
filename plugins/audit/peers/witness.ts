import { join } from 'node:path'
import { readVersioned, writeVersioned } from '../../../kernel/index.js'
import { isHash } from '../chain/record.js'
import type { Channel, Cluster, Logger } from '../../../kernel/index.js'
import type { Head } from '../chain/verify.js'

interface AnnouncedHeads {
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

interface WitnessOptions {
  readonly folder: string
  readonly cluster: Pick<Cluster, 'channel' | 'onPeers' | 'nodes'>
  readonly log: Logger
  readonly head: () => Head | null
  /** Called when a node contradicts an earlier announcement. */
  readonly onContradiction: (node: string) => void
}

export class Witness {
  readonly #options: WitnessOptions
  readonly #path: string
  readonly #heads: Heads
  readonly #channel: Channel<Head>
  #toKeep = false
  #told = 0

  constructor (options: WitnessOptions) {
    const { cluster } = options
    this.#options = options
    this.#path = join(options.folder, 'heads.json')
    this.#heads = new Heads(this.#read())
    this.#channel = cluster.channel<Head>('audit.heads', (from, message) => this.#hear(from, message))
    for (const { installId } of cluster.nodes()) this.#check(installId)
  }

  of (node: string): AnnouncedHeads { return this.#heads.of(node) }

  /** Called periodically; announces a changed head and saves received heads. */
  beat (): void {
    const head = this.#options.head()
    if (head !== null && head.seq !== this.#told) {
      this.#channel.broadcast(head)
      this.#told = head.seq
    }
    if (this.#toKeep) this.#keep()
  }

  /** Called when a node connects. */
  greet (installId: string): void {
    const head = this.#options.head()
    if (head !== null) this.#channel.send(installId, head)
  }

  close (): void {
    this.#channel.close()
    if (this.#toKeep) this.#keep()
  }

  #hear (from: string, message: unknown): false | undefined {
    const head = readHead(message)
    if (head === null) return false
    const news = this.#heads.hear(from, head)
    if (news === 'known') return
    this.#toKeep = true
    this.#check(from)
  }

  #check (node: string): void {
    if (this.#heads.of(node).contradiction !== null) this.#options.onContradiction(node)
  }

  #keep (): void {
    try {
      writeVersioned(this.#path, 1, { nodes: this.#heads.all() })
      this.#toKeep = false
    } catch (error) {
      this.#options.log.debug({ message: (error as Error).message }, 'the announced heads could not be saved')
    }
  }

  #read (): Record<string, AnnouncedHeads> {
    try {
      return readVersioned<{ nodes: Record<string, AnnouncedHeads> }>(this.#path, 1)?.nodes ?? {}
    } catch (error) {
      const { message } = error as Error
      this.#options.log.warn({ message }, 'the announced heads could not be read')
      return {}
    }
  }
}
