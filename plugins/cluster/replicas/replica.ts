import { Doc } from 'yjs'
import { difference, hashOf, KvDoc, MAX_UPDATE_BYTES } from '../../../kernel/cluster.js'
import { payloadOf, step1 } from './messages.js'
import type { Changes } from '../../../kernel/cluster.js'
import type { Announce, ResyncRequest, State, Update } from './messages.js'

/** More than an owner may have, so that a later version may raise its limit. */
const MAX_LIVE_BYTES = 256 * 1024
const MAX_STRUCTS = 20_000
/** A second gap within so many ms: the document is given up and loaded whole. */
const REPEATED = 10_000
/** A question without an answer counts as lost after so many ms. */
const ANSWER = 2000

/** Result of a message. `resync`: something was missed. `load`: the document is not (fully) here yet. */
export type Taken = 'ok' | 'load' | 'resync' | 'protocol_error'

const NONE: Changes = new Map()

/** Another node's observed document, as far as it is known here. Decides what it lacks; sends nothing. */
export class Replica {
  readonly owner: string
  old = false
  #boot: string
  #gen = 0
  #seq = 0
  /** Null until loaded, and when it is not to be trusted. */
  #kv: KvDoc | null = null
  #live: ReadonlyMap<string, unknown> = new Map()
  #hash: string | null = null
  #changes: Changes = NONE
  #askedAt: number | null = null
  #gapAt: number | null = null

  constructor (owner: string, boot: string) {
    this.owner = owner
    this.#boot = boot
  }

  get boot (): string { return this.#boot }
  get live (): ReadonlyMap<string, unknown> { return this.#live }

  /** Takes the changes of the last message. */
  takeChanges (): Changes {
    const changes = this.#changes
    this.#changes = NONE
    return changes
  }

  take (message: Announce | State | Update): Taken {
    if (message.boot !== this.#boot) this.#startAnew(message.boot)
    switch (message.kind) {
      case 'announce': return this.#announced(message)
      case 'state': return message.whole ? this.#load(message) : this.#fill(message)
      case 'update': return this.#update(message)
    }
  }

  /** The owner said where it is. `diverged`: the same number, other contents. */
  compare ({ boot, seq, hash }: { boot: string, seq: number, hash: string }): Taken | 'diverged' {
    if (boot !== this.#boot) this.#startAnew(boot)
    if (this.#kv === null) return 'load'
    if (seq !== this.#seq) return seq > this.#seq ? 'resync' : 'ok'
    this.#hash ??= hashOf(this.#live)
    if (hash === this.#hash) return 'ok'
    this.distrust()
    return 'diverged'
  }

  /** What to ask the owner; null while an answer is due. `gap`: something was missed. */
  ask (now: number, gap: boolean): ResyncRequest | null {
    if (this.#askedAt !== null && now - this.#askedAt < ANSWER) return null
    if (gap) {
      if (this.#gapAt !== null && now - this.#gapAt < REPEATED) this.distrust()
      this.#gapAt = now
    }
    this.#askedAt = now
    const { owner } = this
    // An empty document has an empty state vector, which asks for all of it.
    const sync = step1(this.#kv?.doc ?? new Doc())
    return { kind: 'ask', owner, boot: this.#boot, gen: this.#gen, sync }
  }

  /** The question was not sent, or its answer will not come. */
  unasked (): void { this.#askedAt = null }

  /** Drops the document, not what is known: that is shown until the owner has answered. */
  distrust (): void {
    this.#kv?.destroy()
    this.#kv = null
    this.#askedAt = null
  }

  #announced ({ gen, seq }: Announce): Taken {
    return this.#kv !== null && gen === this.#gen && seq <= this.#seq ? 'ok' : 'load'
  }

  /** The owner restarted: data of its earlier process is invalid. */
  #startAnew (boot: string): void {
    this.distrust()
    this.#changes = difference(this.#live, new Map())
    this.#live = new Map()
    this.#hash = null
    this.#boot = boot
    this.#gen = 0
    this.#seq = 0
  }

  #load ({ client, gen, seq, sync }: State): Taken {
    if (this.#kv !== null && (gen < this.#gen || (gen === this.#gen && seq < this.#seq))) return 'ok'
    const bytes = payloadOf('step2', sync)
    const kv = new KvDoc(client)
    if (bytes === null || 'refused' in kv.check(bytes, 0, MAX_LIVE_BYTES * 2) || !this.#fits(kv, bytes)) {
      kv.destroy()
      return 'protocol_error'
    }
    this.distrust()
    this.#kv = kv
    this.#gen = gen
    this.#note(seq, difference(this.#live, kv.live))
    this.#live = kv.live
    return 'ok'
  }

  #fits (kv: KvDoc, bytes: Uint8Array): boolean {
    return kv.apply(bytes) !== null && kv.liveBytes <= MAX_LIVE_BYTES && kv.structs <= MAX_STRUCTS
  }

  #fill (message: State): Taken {
    if (this.#kv === null || !this.#isOf(message)) return 'load'
    this.#askedAt = null
    return message.seq < this.#seq ? 'ok' : this.#apply(this.#kv, message, 'step2')
  }

  #update (message: Update): Taken {
    if (this.#kv === null || !this.#isOf(message)) return 'load'
    if (message.seq <= this.#seq) return 'ok'
    if (message.seq > this.#seq + 1) return 'resync'
    return this.#apply(this.#kv, message, 'update')
  }

  #isOf ({ client, gen }: State | Update): boolean {
    return gen === this.#gen && client === this.#kv?.writer
  }

  #apply (kv: KvDoc, { sync, seq }: State | Update, kind: 'step2' | 'update'): Taken {
    const bytes = payloadOf(kind, sync)
    const verdict = bytes === null ? null : kv.check(bytes, kv.clock, MAX_UPDATE_BYTES)
    if (bytes === null || verdict === null) return 'protocol_error'
    if ('refused' in verdict) return verdict.gap ? 'resync' : 'protocol_error'
    const changes = kv.apply(bytes)
    if (changes === null || kv.liveBytes > MAX_LIVE_BYTES || kv.structs > MAX_STRUCTS) {
      this.distrust()
      return changes === null ? 'resync' : 'protocol_error'
    }
    this.#note(seq, changes)
    return 'ok'
  }

  #note (seq: number, changes: Changes): void {
    this.#seq = seq
    this.#hash = null
    this.#changes = this.#changes.size === 0 ? changes : new Map([...this.#changes, ...changes])
  }
}
