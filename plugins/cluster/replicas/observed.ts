import { decodeStateVector } from 'yjs'
import { hashOf, frozenCopy, KvDoc, sizeOf } from '../../../kernel/cluster.js'
import { payloadOf, step2, update } from './messages.js'
import type { Announce, ResyncRequest, State, Update } from './messages.js'

/** Bytes of an observed document's live entries as updates carry them; well below what a replica takes. */
export const MAX_OBSERVED_BYTES = 192 * 1024

/** The document that this node alone writes. Changes are seen here at once and leave together by `flush`. */
export class ObservedDoc {
  readonly owner: string
  readonly boot: string
  #kv = new KvDoc()
  #gen = 0
  #seq = 0
  #hash: string | null = null
  /** The view of `get`: the document and unflushed writes. */
  readonly #view = new Map<string, unknown>()
  readonly #pending = new Map<string, unknown>()
  /** Bytes of the view's entries. */
  #bytes = 0

  constructor (owner: string, boot: string) {
    this.owner = owner
    this.boot = boot
  }

  get view (): ReadonlyMap<string, unknown> { return this.#view }
  get kv (): KvDoc { return this.#kv }

  /** @returns whether anything changed. @throws TypeError, RangeError as Replicas.put */
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

  /** Writes what is pending. Returns what the others need; null when nothing changed in the end. */
  flush (): Update | State | null {
    const bytes = this.#kv.write(this.#pending)
    this.#pending.clear()
    if (bytes === null) return null
    this.#seq++
    this.#hash = null
    if (!this.#kv.worn()) return { kind: 'update', ...this.#place(), sync: update(bytes) }
    this.#rotate()
    return this.#state(true, step2(this.#kv.doc))
  }

  announce (): Announce { return { kind: 'announce', ...this.#place() } }

  /** The update for the asking node; null when it did not say what it has. */
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

  /** Bytes of an entry of the view; 0 when there is none. */
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
