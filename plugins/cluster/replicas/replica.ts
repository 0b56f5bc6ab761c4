import { Doc } from 'yjs'
import { difference, hashOf, KvDoc, MAX_UPDATE_BYTES, type Changes } from '../../../kernel/cluster.js'
import { payloadOf, step1, type Announce, type ResyncRequest, type State, type Update } from './messages.js'

/** Limit of a replica; above the owner's limit, so that a later version may raise the owner's. */
const MAX_LIVE_BYTES = 256 * 1024
const MAX_STRUCTS = 20_000
/** A second gap within this many ms triggers a reload of the whole document. */
const REPEATED = 10_000
/** Milliseconds after which an unanswered request counts as lost. */
const ANSWER = 2000

/** Result of handling a message. `resync`: changes were missed. `load`: the document must be loaded first. */
export type Taken = 'ok' | 'load' | 'resync' | 'protocol_error'

const NONE: Changes = new Map()

/** The local copy of another node's observed document. Decides what to request; sends nothing. */
export class Replica {
  readonly owner: string
  old = false
  #boot: string
  #gen = 0
  #seq = 0
  /** Null until loaded, and after `invalidate`. */
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

  /** Returns and clears the changes made by the last message. */
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

  /** Compares this copy with the owner's position. `diverged`: same sequence number, other contents. */
  compare ({ boot, seq, hash }: { boot: string, seq: number, hash: string }): Taken | 'diverged' {
    if (boot !== this.#boot) this.#startAnew(boot)
    if (this.#kv === null) return 'load'
    if (seq !== this.#seq) return seq > this.#seq ? 'resync' : 'ok'
    this.#hash ??= hashOf(this.#live)
    if (hash === this.#hash) return 'ok'
    this.invalidate()
    return 'diverged'
  }

  /** The request to the owner; null while an answer is pending. `gap`: changes are missing. */
  ask (now: number, gap: boolean): ResyncRequest | null {
    if (this.#askedAt !== null && now - this.#askedAt < ANSWER) return null
    if (gap) {
      if (this.#gapAt !== null && now - this.#gapAt < REPEATED) this.invalidate()
      this.#gapAt = now
    }
    this.#askedAt = now
    const { owner } = this
    // An empty document has an empty state vector, which requests everything.
    const sync = step1(this.#kv?.doc ?? new Doc())
    return { kind: 'ask', owner, boot: this.#boot, gen: this.#gen, sync }
  }

  /** Call this if the request was not sent or its answer will not arrive. */
  clearRequest (): void { this.#askedAt = null }

  /** Drops the Yjs document but not its values, which stay visible until the owner answers. */
  invalidate (): void {
    this.#kv?.destroy()
    this.#kv = null
    this.#askedAt = null
  }

  #announced ({ gen, seq }: Announce): Taken {
    return this.#kv !== null && gen === this.#gen && seq <= this.#seq ? 'ok' : 'load'
  }

  /** Drops data from the owner's earlier process, because the owner has restarted. */
  #startAnew (boot: string): void {
    this.invalidate()
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
    this.invalidate()
    this.#kv = kv
    this.#gen = gen
    this.#applied(seq, difference(this.#live, kv.live))
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
      this.invalidate()
      return changes === null ? 'resync' : 'protocol_error'
    }
    this.#applied(seq, changes)
    return 'ok'
  }

  #applied (seq: number, changes: Changes): void {
    this.#seq = seq
    this.#hash = null
    this.#changes = this.#changes.size === 0 ? changes : new Map([...this.#changes, ...changes])
  }
}
