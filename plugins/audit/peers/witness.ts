import { join } from 'node:path'
import { readVersioned, writeVersioned } from '../../../kernel/index.js'
import { Heads, readHead } from './heads.js'
import type { Channel, Cluster, Logger } from '../../../kernel/index.js'
import type { AnnouncedHeads } from './heads.js'
import type { Head } from '../chain/verify.js'

export interface WitnessOptions {
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
