import { createHash } from 'node:crypto'
import { nodeIds } from '../election/protocol.js'
import { bytes, count, fits, json, listOf, orNull, problem, record, schemaOf, text, oneOf } from '../wire.js'
import type { Changes, KvDoc } from '../../../kernel/cluster.js'
import type { Of } from '../wire.js'
import type { Entry, NodeId } from '../election/protocol.js'
import type { KeptReceipt } from './receipts.js'
import type { Snapshot } from './snapshot.js'

const digest = schemaOf<string>({ type: 'string' })
const entrySchema = record({
  kind: oneOf<Entry['kind']>('session', 'anoint', 'voters', 'command'),
  id: text, sid: text, term: count, seq: count,
  /** Hash over this entry and all earlier ones. */
  digest,
  /** Yjs update; empty if the document did not change. */
  update: bytes,
  result: json
}, {
  /** Node ids of the voters from this entry on; absent if the entry does not change them. */
  voters: nodeIds
})
const partSchema = record({
  base: record({ seq: count, digest }), clientId: count, entries: listOf(entrySchema)
})
const wholeSchema = record({
  base: schemaOf<null>({ type: 'null' }),
  state: bytes, clientId: count, sid: orNull(text), term: count, seq: count, gen: count, digest,
  voters: orNull(nodeIds),
  receipts: listOf(record({ id: text, sid: text, term: count, seq: count }, { result: json }))
})

export type WireEntry = Of<typeof entrySchema>
/** The entries after `base.seq`, for a node whose document has the same Yjs writer. */
export type EntriesBody = Of<typeof partSchema>
export type WholeBody = Of<typeof wholeSchema>
export type ControlBody = EntriesBody | WholeBody

export const GENESIS = ''

type Digested = Omit<WireEntry, 'digest'>

/** SHA-256, base64url, over the previous digest and all fields of an entry. */
export function digestOf (before: string, entry: Digested): string {
  const { seq, term, sid, kind, id, update, result, voters } = entry
  const head = JSON.stringify([before, seq, term, sid, kind, id, voters ?? null, result ?? null])
  return createHash('sha256').update(head).update(update).digest('base64url')
}

/** Returns the parsed body, or a string that describes the problem. Ignores unknown fields. Never throws. */
export function readBody (value: unknown): ControlBody | string {
  const whole = (value as { base?: unknown } | null | undefined)?.base === null
  const wrong = problem(whole ? wholeSchema : partSchema, value)
  if (wrong !== null) return wrong
  const body = value as ControlBody
  if (body.base === null) return body
  const { base, entries } = body
  const hole = entries.find((entry, i) => entry.seq !== base.seq + 1 + i)
  return hole === undefined ? body : `entry ${hole.seq} is out of sequence`
}

/** Position of the control document; immutable, replaced as a whole. */
export type LogState = Omit<Snapshot, 'receipts' | 'entries'>

export const BEGINNING: LogState = { sid: null, term: 0, seq: 0, gen: 0, digest: GENESIS, voters: null }
export const NO_UPDATE = new Uint8Array()
export const NO_CHANGES: Changes = new Map()

interface Made { readonly update: Uint8Array, readonly result: unknown, readonly voters: readonly NodeId[] }

/** Appends an entry at `place`: returns the new position, the entry's receipt and its wire form. */
export function nextState (
  { seq: last, gen, digest: before, voters: previous }: LogState, entry: Entry,
  { update, result, voters }: Made
): { place: LogState, receipts: readonly KeptReceipt[], wire: WireEntry } {
  const { kind, id, sid, term } = entry
  const changed = previous === voters ? {} : { voters }
  const head = { kind, id, sid, term, seq: last + 1, update, result, ...changed }
  const digest = digestOf(before, head)
  const place = { sid, term, seq: head.seq, gen, digest, voters }
  return { place, receipts: [receiptOf(head)], wire: { ...head, digest } }
}

export function receiptOf ({ id, sid, term, seq, result }: Omit<WireEntry, 'digest'>): KeptReceipt {
  return { id, sid, term, seq, ...(result === undefined ? {} : { result }) }
}

/** @throws TypeError for anything but a list of node ids */
export function readVoters (payload: unknown): readonly NodeId[] {
  if (!fits(nodeIds, payload)) throw new TypeError('the payload of a voters entry is not a list of node ids')
  return [...payload]
}

/** Checks entries that follow `digest`. Null if all are valid; `gap` if they follow another history. */
export function checkEntries (
  kv: KvDoc, digest: string, entries: readonly WireEntry[]
): { readonly gap: boolean, readonly why: string } | null {
  let known = kv.clock
  let before = digest
  for (const entry of entries) {
    before = digestOf(before, entry)
    if (before !== entry.digest || entry.kind === 'session') return { gap: true, why: 'another history' }
    if (entry.update.length === 0) continue
    const verdict = kv.check(entry.update, known)
    if ('refused' in verdict) return { gap: verdict.gap, why: `entry ${entry.seq}: ${verdict.refused}` }
    known = verdict.end
  }
  return null
}

/** Applies checked entries. Null if the document turns out to differ from its writer's. */
export function applyEntries (kv: KvDoc, entries: readonly WireEntry[]): Changes | null {
  const all = new Map<string, unknown>()
  for (const { update } of entries) {
    const changes = update.length === 0 ? NO_CHANGES : kv.apply(update)
    if (changes === null) return null
    for (const [key, value] of changes) all.set(key, value)
  }
  return all
}

const MAX_ENTRIES = 512
const MAX_BYTES = 512 * 1024

/** The newest entries in one document, so that followers need not load all of it. */
export class RecentEntries {
  #entries: WireEntry[] = []
  #bytes = 0
  /** Position before the first entry. */
  #base: { seq: number, digest: string }

  constructor (seq: number, digest: string) { this.#base = { seq, digest } }

  push (entry: WireEntry): void {
    this.#entries.push(entry)
    this.#bytes += entry.update.length
    while (this.#entries.length > MAX_ENTRIES || this.#bytes > MAX_BYTES) this.#shift()
  }

  /** The digest at an entry; undefined if the entry is no longer in the buffer. */
  digestAt (seq: number): string | undefined {
    return seq === this.#base.seq ? this.#base.digest : this.#at(seq)?.digest
  }

  /** Entries after `seq`; undefined if some are no longer in the buffer. */
  since (seq: number): readonly WireEntry[] | undefined {
    return seq < this.#base.seq ? undefined : this.#entries.slice(seq - this.#base.seq)
  }

  #at (seq: number): WireEntry | undefined { return this.#entries[seq - this.#base.seq - 1] }

  #shift (): void {
    const first = this.#entries.shift()
    if (first === undefined) return
    this.#bytes -= first.update.length
    this.#base = { seq: first.seq, digest: first.digest }
  }
}
