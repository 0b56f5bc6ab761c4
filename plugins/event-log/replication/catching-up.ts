import { samePosition } from '../log/entries.js'
import type { Entry, Position } from '../log/entries.js'
import type { EventLog } from '../log/log.js'
import type { Of } from './messages.js'

// How a node takes over pages of other logs: a follower from its master, a new master from its peers, and a
// node that was away from any peer that has what it missed.

/** Longest wait of a new master for a silent peer before it assigns indices, ms. */
export const PEER_WAIT_MS = 500
/** Longest wait of a new master for a peer's next page, ms. */
export const LEARN_NEXT_MS = 3_000
/** After this time a new master gives out indices even if peers are still sending, ms. */
export const LEARN_MOST_MS = 60_000
/** Longest wait for a page that the master no longer has, ms; the peer may read it from its disk. */
export const FETCH_MS = 5_000

/** Appends an entry; false when it does not continue the log. */
type Append = (entry: Entry) => boolean

export interface PageResult {
  /** `whole`: the log equals the master's; `more`: as far as the page goes; `broken`: it did not fit. */
  readonly state: 'whole' | 'more' | 'broken'
  /** Entries that the master's log does not have, or has elsewhere. */
  readonly removed: Entry[]
}

/** Makes the log of a follower equal to the master's as far as the page goes. */
export function applyPage (log: EventLog, { base, entries, last }: Of<'page'>, append: Append): PageResult {
  const removed: Entry[] = []
  if (!log.holds(base)) {
    // A log that ends before the master's begins was away for too long: its entries are older than what the
    // master keeps, and stay on disk. Those of any other log go back.
    const away = log.last.idx < base.idx
    const before = log.restart(base)
    if (!away) removed.push(...before)
  }
  for (const entry of entries) {
    if (log.holds(entry)) continue
    removed.push(...log.cut(entry.prev))
    if (!append(entry)) return { state: 'broken', removed }
  }
  if (!samePosition(entries.at(-1) ?? base, last)) return { state: 'more', removed }
  if (log.last.idx > last.idx) removed.push(...log.cut(last.idx))
  return { state: 'whole', removed }
}

/** Appends those entries that continue the log, up to a position. True when there were some. */
export function extend (
  log: EventLog, entries: readonly Entry[], append: Append, until: Position | null = null
): boolean {
  const { last } = log
  for (const entry of entries) {
    if (log.holds(entry)) continue
    const isBeyond = until !== null && entry.idx >= until.idx && !samePosition(entry, until)
    if (isBeyond || !append(entry)) break
  }
  return !samePosition(last, log.last)
}
