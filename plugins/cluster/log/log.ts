import { difference, hashOf, KvDoc, Listeners, type Changes } from '../../../kernel/cluster.js'
import {
  applyEntries, BEGINNING, checkEntries, nextState, NO_CHANGES, NO_UPDATE, readBody, readVoters, receiptOf,
  RecentEntries, type ControlBody, type EntriesBody, type LogState, type WholeBody, type WireEntry
} from './entries.js'
import { execute, seedOf, type ControlOptions } from './execute.js'
import { ReceiptCache, toReceipt, type KeptReceipt } from './receipts.js'
import { readSnapshot, SnapshotWriter, type Snapshot } from './snapshot.js'
import type { ApplyResult, Entry, Log, LogPosition, CommandReceipt } from '../election/protocol.js'

export interface Position {
  readonly sid: string | null, readonly term: number, readonly seq: number
  /** Increases with each rotation of the document within its session. */
  readonly gen: number
  readonly hash: string
}

/** Maximum bytes of a whole document in Yjs encoding; its writer rotates it before it gets that large. */
const MAX_STATE_BYTES = 768 * 1024

interface Draft {
  readonly place: LogState, readonly kv: KvDoc, readonly changes: Changes
  readonly receipts: readonly KeptReceipt[]
  /** Entries to append; null if this state starts a new Yjs document. */
  readonly entries: readonly WireEntry[] | null
  readonly whole?: boolean
}

/** The control document: a log of the master's decisions. `append` and `adopt` return errors, never throw. */
export class ControlLog implements Log {
  readonly #options: ControlOptions
  readonly #disk: SnapshotWriter
  readonly #observers: Listeners<ReadonlySet<string>>
  #place = BEGINNING
  #receipts = new ReceiptCache()
  readonly #live = new Map<string, unknown>()
  /** The Yjs document; null after a start, and if it may differ from the committed entries. */
  #kv: KvDoc | null = null
  #ring: RecentEntries
  #hash: string | null = null
  #closed = false

  /** Loads the snapshot from disk. @throws HomeError for an unreadable or broken one */
  constructor (options: ControlOptions) {
    this.#options = options
    this.#observers = new Listeners(options.log)
    const { store, durable, clock, log } = options
    const text = store.read()
    if (text !== undefined) this.#load(readSnapshot(text, store.path ?? 'the control snapshot'))
    this.#ring = new RecentEntries(this.#place.seq, this.#place.digest)
    const now = (): Snapshot => this.#snapshot(this.#place, this.#live, this.#receipts.list())
    this.#disk = new SnapshotWriter({ store, durable, clock, log, now })
  }

  last (): LogPosition { return { term: this.#place.term, seq: this.#place.seq } }
  voters (): readonly string[] { return this.#place.voters ?? this.#options.founders }

  find (id: string): CommandReceipt | undefined {
    const kept = this.#receipts.get(id)
    return kept === undefined ? undefined : toReceipt(kept)
  }

  get (key: string): unknown { return this.#live.get(key) }
  entries (): Iterable<readonly [string, unknown]> { return this.#live.entries() }

  position (): Position {
    const { sid, term, seq, gen } = this.#place
    this.#hash ??= hashOf(this.#live)
    return { sid, term, seq, gen, hash: this.#hash }
  }

  /** `fn` runs after each change, inside `append` or `adopt`, and so must not call the election. */
  observe (fn: (keys: ReadonlySet<string>) => void): () => void { return this.#observers.add(fn) }

  append (entry: Entry): boolean {
    return this.#safely('append', false, () =>
      this.#commit(entry.kind === 'session' ? this.#beginSession(entry) : this.#enter(entry)))
  }

  adopt (value: unknown): ApplyResult {
    return this.#safely<ApplyResult>('adopt', 'failed', () => {
      const body = readBody(value)
      if (typeof body === 'string') return this.#refuse(body)
      return body.base === null ? this.#adoptWhole(body) : this.#adoptPart(body)
    })
  }

  body (seq: number | null): ControlBody {
    const kv = this.#kv ?? this.#renew()
    const { writer: clientId } = kv
    const digest = seq === null ? undefined : this.#ring.digestAt(seq)
    const entries = seq === null ? undefined : this.#ring.since(seq)
    if (seq !== null && digest !== undefined && entries !== undefined) {
      return { base: { seq, digest }, clientId, entries }
    }
    return { base: null, state: kv.state(), clientId, ...this.#place, receipts: [...this.#receipts.list()] }
  }

  /** Drops the Yjs document because it differs from the master's; the whole one is then requested. */
  invalidate (): void {
    this.#kv?.destroy()
    this.#kv = null
  }

  close (): void {
    if (this.#closed) return
    this.#closed = true
    this.#disk.close()
    this.invalidate()
    this.#observers.clear()
  }

  /** Runs `act`. An exception means a defect: logs it, drops the Yjs document and returns `failed`. */
  #safely<T> (what: string, failed: T, act: () => T): T {
    if (this.#closed) return failed
    try {
      return act()
    } catch (error) {
      this.#options.log.error({ err: error }, `a defect in ${what} of the control document`)
      this.invalidate()
      return failed
    }
  }

  #load ({ receipts, entries, ...place }: Snapshot): void {
    this.#place = place
    this.#receipts = new ReceiptCache(receipts)
    for (const [key, value] of entries) this.#live.set(key, value)
  }

  /** Starts a new Yjs document, in the next generation, with this node as writer and the same contents. */
  #renew (): KvDoc {
    this.invalidate()
    this.#kv = KvDoc.holding(this.#live)
    this.#place = { ...this.#place, gen: this.#place.gen + 1 }
    this.#ring = new RecentEntries(this.#place.seq, this.#place.digest)
    return this.#kv
  }

  #beginSession (entry: Entry): Draft {
    const contents = seedOf(this.#options, this.#live)
    const changes = difference(this.#live, contents)
    const made = { update: NO_UPDATE, result: undefined, voters: this.voters() }
    const { place, receipts } = nextState(this.#place, entry, made)
    return { place: { ...place, gen: 0 }, kv: KvDoc.holding(contents), changes, receipts, entries: null }
  }

  #enter (entry: Entry): Draft {
    const kv = this.#kv?.own === true ? this.#kv : this.#renew()
    const effect = entry.kind === 'command' ? execute(this.#options, kv, entry) : null
    const changes = effect?.changes ?? NO_CHANGES
    const voters = entry.kind === 'voters' ? readVoters(entry.payload) : this.voters()
    const update = kv.write(changes) ?? NO_UPDATE
    const { place, receipts, wire } =
      nextState(this.#place, entry, { update, result: effect?.result, voters })
    if (!kv.needsCompaction()) return { place, kv, changes, receipts, entries: [wire] }
    const next = { ...place, gen: place.gen + 1 }
    // Compaction: moves the live entries to a new Yjs document, which has no tombstones.
    return { place: next, kv: KvDoc.holding(kv.live), changes, receipts, entries: null }
  }

  #adoptPart ({ base, clientId, entries }: EntriesBody): ApplyResult {
    const { seq } = this.#place
    const kv = this.#kv
    const held = entries.filter((entry) => entry.seq <= seq)
    const same = [base, ...held].every((entry) => this.#ring.digestAt(entry.seq) === entry.digest)
    if (kv?.writer !== clientId || !same) return 'gap'
    const rest = entries.filter((entry) => entry.seq > seq)
    const last = rest.at(-1)
    if (last === undefined) return 'adopted'
    const wrong = checkEntries(kv, this.#place.digest, rest)
    if (wrong !== null) {
      // A sender with another history does not violate the protocol: `gap` requests the whole document.
      if (!wrong.gap) this.#refuse(wrong.why)
      return 'gap'
    }
    const changes = applyEntries(kv, rest)
    if (changes === null) {
      this.invalidate()
      return 'gap'
    }
    const voters = rest.findLast((entry) => entry.voters !== undefined)?.voters ?? this.voters()
    const { gen } = this.#place
    const place = { sid: last.sid, term: last.term, seq: last.seq, gen, digest: last.digest, voters }
    const receipts = rest.map(receiptOf)
    return this.#commit({ place, kv, changes, receipts, entries: rest }) ? 'adopted' : 'failed'
  }

  #adoptWhole (body: WholeBody): ApplyResult {
    const { state, clientId, sid, term, seq, gen, digest, voters, receipts } = body
    const kv = new KvDoc(clientId)
    const verdict = kv.check(state, 0, MAX_STATE_BYTES)
    const wrong = 'refused' in verdict ? verdict.refused : null
    if (wrong !== null || kv.apply(state) === null) {
      kv.destroy()
      return this.#refuse(wrong ?? 'the document is inconsistent')
    }
    const changes = difference(this.#live, kv.live)
    const known = digest === this.#place.digest && seq === this.#place.seq
    if (known && changes.size > 0) {
      const keys = [...changes.keys()].slice(0, 10)
      this.#options.log.error({ seq, keys }, 'the control data had diverged')
    }
    const place = { sid, term, seq, gen, digest, voters }
    const draft: Draft = { place, kv, changes, receipts, entries: null, whole: true }
    // No write to disk: the contents are the same, and only the Yjs document was missing.
    if (known && changes.size === 0) this.#apply(draft)
    else if (!this.#commit(draft)) return 'failed'
    return 'adopted'
  }

  #commit (draft: Draft): boolean {
    const { place, kv, receipts, whole } = draft
    const held = whole === true ? [] : this.#receipts.list()
    if (!this.#disk.keep(() => this.#snapshot(place, kv.live, [...held, ...receipts]))) {
      if (kv !== this.#kv) kv.destroy()
      this.invalidate()
      return false
    }
    this.#apply(draft)
    return true
  }

  #apply ({ place, kv, changes, receipts, entries, whole }: Draft): void {
    if (this.#kv !== kv) this.invalidate()
    this.#kv = kv
    this.#place = place
    if (entries === null) this.#ring = new RecentEntries(place.seq, place.digest)
    for (const entry of entries ?? []) this.#ring.push(entry)
    if (whole === true) this.#receipts = new ReceiptCache(receipts)
    else for (const receipt of receipts) this.#receipts.add(receipt)
    for (const [key, value] of changes) {
      if (value === undefined) this.#live.delete(key)
      else this.#live.set(key, value)
    }
    this.#hash = null
    if (changes.size > 0) this.#observers.tell(new Set(changes.keys()))
  }

  #snapshot (place: LogState, live: ReadonlyMap<string, unknown>, receipts: Iterable<KeptReceipt>): Snapshot {
    return { ...place, receipts: [...receipts], entries: [...live] }
  }

  #refuse (why: string): ApplyResult {
    this.#options.log.warn({ why }, 'control data from the master was refused')
    return 'refused'
  }
}
