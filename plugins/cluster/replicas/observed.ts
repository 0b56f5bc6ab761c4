import { decodeStateVector } from 'yjs'
import { hashOf, frozenCopy, KvDoc, sizeOf } from '../../../kernel/cluster.js'
import { payloadOf, step2, update } from './messages.js'
import type { Announce, ResyncRequest, State, Update } from './messages.js'

/** Maximum bytes of an observed document's live entries, in Yjs encoding; well below a replica's limit. */
export const MAX_OBSERVED_BYTES = 192 * 1024

/** The document that only this node writes. Changes are visible immediately; `flush` sends them together. */
export class ObservedDoc {
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
    } catch {
      return null
    }
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
