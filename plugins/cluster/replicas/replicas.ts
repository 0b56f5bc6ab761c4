import { decodeStateVector } from 'yjs'
import { Listeners, hashOf, frozenCopy, KvDoc, sizeOf } from '../../../kernel/cluster.js'
import { readDocMessage, payloadOf, step2, update } from './messages.js'
import { Replica, type Taken } from './replica.js'
import type { Clock, Logger } from '../../../kernel/cluster.js'
import type { NodeId } from '../election/protocol.js'
import type { ResyncRequest, DocMessage, Announce, State, Update } from './messages.js'

interface ObservedEntry {
  readonly installId: NodeId, readonly nodeId: string, readonly key: string, readonly value: unknown
  /** True for the last known value while the link to the owner is down. */
  readonly old: boolean
}

interface ReplicasOptions {
  readonly installId: NodeId, readonly nodeId: string
  send (to: NodeId, message: DocMessage): boolean
  broadcast (message: DocMessage): void
  readonly clock: Clock, readonly log: Logger
  /** Called when a replica has the owner's sequence number but other contents, before it is reloaded. */
  diverged (installId: NodeId): void
}

/** Changes made within this many ms are sent as one message. */
const COALESCE_MS = 10

interface Change { readonly installId: NodeId, readonly keys: ReadonlySet<string> }

/** The observed documents: this node's own, and a replica of every other node's. */
export class Replicas {
  readonly #options: ReplicasOptions
  readonly #own: ObservedDoc
  readonly #replicas = new Map<string, Replica>()
  readonly #observers: Listeners<Change>
  #cancel: (() => void) | null = null
  #closed = false

  constructor (options: ReplicasOptions) {
    this.#options = options
    this.#observers = new Listeners(options.log)
    this.#own = new ObservedDoc(options.installId, options.nodeId)
  }

  /** Throws TypeError for an invalid key or value, RangeError above 192 KiB; both name the key. */
  put (key: string, value: unknown): void { if (this.#own.put(key, value)) this.#changed(key) }
  remove (key: string): void { if (this.#own.remove(key)) this.#changed(key) }
  get (key: string): unknown { return this.#own.view.get(key) }

  * entries (): Iterable<ObservedEntry> {
    const { installId, nodeId } = this.#options
    for (const [key, value] of this.#own.view) yield { installId, nodeId, key, value, old: false }
    for (const { owner, boot, live, old } of this.#replicas.values()) {
      for (const [key, value] of live) yield { installId: owner, nodeId: boot, key, value, old }
    }
  }

  /** The observed document of the node process with this id; the last known one if its link is closed. */
  documentOf (nodeId: string): ReadonlyMap<string, unknown> | undefined {
    for (const { boot, live } of this.#replicas.values()) if (boot === nodeId) return live
    return undefined
  }

  observe (fn: (change: Change) => void): () => void { return this.#observers.add(fn) }

  /** Announces this node's document on a link that has just opened. */
  up (installId: string): void {
    const replica = this.#replicas.get(installId)
    if (replica !== undefined) {
      replica.old = false
      replica.clearRequest()
    }
    this.#flush()
    this.#options.send(installId, this.#own.announce())
  }

  down (installId: string): void {
    const replica = this.#replicas.get(installId)
    if (replica === undefined) return
    replica.old = true
    replica.clearRequest()
  }

  drop (installId: string): void {
    const replica = this.#replicas.get(installId)
    if (replica === undefined) return
    this.#replicas.delete(installId)
    const keys = [...replica.live.keys()]
    replica.invalidate()
    this.#notify(installId, keys)
  }

  /** `protocol_error`: the message is invalid, or is about a document that `from` may not write. */
  receive (from: string, message: unknown): 'ok' | 'protocol_error' {
    if (this.#closed) return 'ok'
    const read = readDocMessage(message)
    const taken = read === null ? 'protocol_error' : this.#apply(from, read)
    if (taken !== 'protocol_error') return 'ok'
    const { kind, owner } = read ?? { kind: null, owner: null }
    this.#options.log.warn({ from, kind, owner }, 'a message about a document broke the protocol')
    return 'protocol_error'
  }

  digest (): { seq: number, hash: string } { return this.#own.digest() }

  /** Compares a replica with its owner's digest: requests missing changes, reloads a diverged replica. */
  compare (from: string, digest: { boot: string, seq: number, hash: string }): void {
    if (this.#closed || from === this.#own.owner) return
    const replica = this.#replica(from, digest.boot)
    const verdict = replica.compare(digest)
    this.#notify(from, [...replica.takeChanges().keys()])
    if (verdict !== 'diverged') return this.#ask(replica, verdict)
    this.#options.log.error({ from, seq: digest.seq }, 'a replica had diverged; it is loaded again')
    this.#options.diverged(from)
    this.#ask(replica, 'load')
  }

  close (): void {
    if (this.#closed) return
    this.#closed = true
    this.#cancel?.()
    this.#observers.clear()
    for (const replica of this.#replicas.values()) replica.invalidate()
    this.#replicas.clear()
    this.#own.kv.destroy()
  }

  #changed (key: string): void {
    if (this.#closed) return
    this.#cancel ??= this.#options.clock.after(COALESCE_MS, () => { this.#flush() })
    this.#notify(this.#own.owner, [key])
  }

  #flush (): void {
    this.#cancel?.()
    this.#cancel = null
    const message = this.#own.flush()
    if (message !== null) this.#options.broadcast(message)
  }

  #apply (from: string, message: DocMessage): Taken {
    if (message.kind === 'ask') return this.#answer(from, message)
    // Only the owner sends data for its document.
    if (message.owner !== from || from === this.#own.owner) return 'protocol_error'
    const replica = this.#replica(from, message.boot)
    const taken = replica.take(message)
    this.#notify(from, [...replica.takeChanges().keys()])
    this.#ask(replica, taken)
    return taken
  }

  #answer (from: string, ask: ResyncRequest): Taken {
    if (ask.owner !== this.#own.owner || from === this.#own.owner) return 'protocol_error'
    this.#flush()
    const state = this.#own.answer(ask)
    if (state === null) return 'protocol_error'
    this.#options.send(from, state)
    return 'ok'
  }

  #replica (owner: string, boot: string): Replica {
    const known = this.#replicas.get(owner)
    if (known !== undefined) return known
    const replica = new Replica(owner, boot)
    this.#replicas.set(owner, replica)
    return replica
  }

  #ask (replica: Replica, taken: Taken): void {
    if (taken !== 'load' && taken !== 'resync') return
    const ask = replica.ask(this.#options.clock.mono(), taken === 'resync')
    if (ask === null) return
    if (!this.#options.send(replica.owner, ask)) replica.clearRequest()
  }

  #notify (installId: string, keys: readonly string[]): void {
    if (keys.length > 0) this.#observers.tell({ installId, keys: new Set(keys) })
  }
}

/** Maximum bytes of an observed document's live entries, in Yjs encoding; well below a replica's limit. */
const MAX_OBSERVED_BYTES = 192 * 1024

/** The document that only this node writes. Changes are visible immediately; `flush` sends them together. */
class ObservedDoc {
  readonly owner: string
  readonly boot: string
  #kv = new KvDoc()
  #gen = 0
  #seq = 0
  #hash: string | null = null
  /** What `get` reads: the document's values and unflushed writes. */
  readonly #view = new Map<string, unknown>()
  readonly #pending = new Map<string, unknown>()
  #bytes = 0

  constructor (owner: string, boot: string) {
    this.owner = owner
    this.boot = boot
  }

  get view (): ReadonlyMap<string, unknown> { return this.#view }
  get kv (): KvDoc { return this.#kv }

  /** @returns whether the value changed. @throws TypeError, RangeError in the same cases as Replicas.put */
  put (key: string, value: unknown): boolean {
    const kept = frozenCopy(key, value)
    if (this.#view.has(key) && JSON.stringify(this.#view.get(key)) === JSON.stringify(kept)) return false
    const bytes = this.#bytes - this.#sizeOf(key) + sizeOf(key, kept)
    if (bytes > MAX_OBSERVED_BYTES) {
      throw new RangeError(`with "${key}" the observed document would have ${bytes} bytes, ` +
        `at most ${MAX_OBSERVED_BYTES}`)
    }
    this.#pending.set(key, kept)
    this.#view.set(key, kept)
    this.#bytes = bytes
    return true
  }

  remove (key: string): boolean {
    if (!this.#view.has(key)) return false
    this.#bytes -= this.#sizeOf(key)
    this.#view.delete(key)
    this.#pending.set(key, undefined)
    return true
  }

  /** Writes pending changes. Returns the message for the other nodes; null if nothing changed. */
  flush (): Update | State | null {
    const bytes = this.#kv.write(this.#pending)
    this.#pending.clear()
    if (bytes === null) return null
    this.#seq++
    this.#hash = null
    if (!this.#kv.needsCompaction()) return { kind: 'update', ...this.#place(), sync: update(bytes) }
    this.#rotate()
    return this.#state(true, step2(this.#kv.doc))
  }

  announce (): Announce { return { kind: 'announce', ...this.#place() } }

  /** The update for the requesting node; null for an invalid state vector. */
  answer ({ boot, gen, sync }: ResyncRequest): State | null {
    const vector = payloadOf('step1', sync)
    if (vector === null) return null
    try {
      const whole = boot !== this.boot || gen !== this.#gen || decodeStateVector(vector).size === 0
      return this.#state(whole, step2(this.#kv.doc, whole ? undefined : vector))
    } catch { return null }
  }

  digest (): { seq: number, hash: string } {
    this.#hash ??= hashOf(this.#kv.live)
    return { seq: this.#seq, hash: this.#hash }
  }

  #sizeOf (key: string): number { return this.#view.has(key) ? sizeOf(key, this.#view.get(key)) : 0 }

  #place (): { owner: string, boot: string, client: number, gen: number, seq: number } {
    const { owner, boot } = this
    return { owner, boot, client: this.#kv.writer, gen: this.#gen, seq: this.#seq }
  }

  #state (whole: boolean, sync: Uint8Array): State { return { kind: 'state', ...this.#place(), whole, sync } }

  #rotate (): void {
    const old = this.#kv
    this.#kv = KvDoc.holding(old.live)
    this.#gen++
    old.destroy()
  }
}
