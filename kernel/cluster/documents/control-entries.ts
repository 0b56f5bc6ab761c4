import { GENESIS, digestOf, isNames } from './control-body.js'
import type { Entry, NodeId } from '../election/index.js'
import type { WireEntry } from './control-body.js'
import type { Changes, KvDoc } from './kv-doc.js'
import type { KeptReceipt } from './receipts.js'
import type { Snapshot } from './snapshot.js'

/** Where the control document stands. Replaced whole, never changed. */
export type Place = Omit<Snapshot, 'receipts' | 'entries'>

export const BEGINNING: Place = { sid: null, term: 0, seq: 0, gen: 0, digest: GENESIS, voters: null }
export const NO_UPDATE = new Uint8Array()
export const NO_CHANGES: Changes = new Map()

/** What came of an entry on the master. */
interface Made { readonly update: Uint8Array, readonly result: unknown, readonly voters: readonly NodeId[] }

/** Numbers, digest and receipt of an entry that follows `place`. */
export function follow (
  { seq: last, gen, digest: before, voters: previous }: Place, entry: Entry, { update, result, voters }: Made
): { place: Place, receipts: readonly KeptReceipt[], wire: WireEntry } {
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
  if (!isNames(payload)) throw new TypeError('the payload of a voters entry is not a list of node ids')
  return [...payload]
}

/**
 * Looks at entries that follow `digest`, all of them before the first one touches the document. Null when
 * they fit; `gap` when they continue something else.
 */
export function checkEntries (
  kv: KvDoc, digest: string, entries: readonly WireEntry[]
): { readonly gap: boolean, readonly why: string } | null {
  let known = kv.clock
  let before = digest
  for (const entry of entries) {
    before = digestOf(before, entry)
    if (before !== entry.digest || entry.kind === 'session') return { gap: true, why: 'another past' }
    if (entry.update.length === 0) continue
    const verdict = kv.check(entry.update, known)
    if ('refused' in verdict) return { gap: verdict.gap, why: `entry ${entry.seq}: ${verdict.refused}` }
    known = verdict.end
  }
  return null
}

/** Applies what was checked; null when the document is not what its writer has. */
export function applyEntries (kv: KvDoc, entries: readonly WireEntry[]): Changes | null {
  const all = new Map<string, unknown>()
  for (const { update } of entries) {
    const changes = update.length === 0 ? NO_CHANGES : kv.apply(update)
    if (changes === null) return null
    for (const [key, value] of changes) all.set(key, value)
  }
  return all
}
