import { samePosition, type Entry, type Position } from '../log/entries.js'
import type { EventLog } from '../log/log.js'
import type { Of } from './messages.js'

// Applies pages from other nodes' logs: a follower applies the master's, a new master those of its peers, and
// a node that was away those of any peer that still has the missing entries.

/** Time limit in ms for which a new master waits for a silent peer before it assigns indices. */
export const PEER_WAIT_MS = 500
/** Time limit in ms for which a new master waits for a peer's next page. */
export const LEARN_NEXT_MS = 3_000
/** Time limit in ms after which a new master assigns indices even if peers are still sending. */
export const LEARN_MOST_MS = 60_000
/** Time limit in ms for a peer's page if the master no longer has it; the peer may read it from disk. */
export const FETCH_MS = 5_000

type Append = (entry: Entry) => boolean

/**
 * Makes a follower's log identical to the master's up to the end of the page. The state is `whole`: equal to
 * the master's log; `more`: equal up to the page's end; `broken`: it did not fit. `removed` are the entries
 * that the master's log does not have, or has at another index.
 */
export function applyPage (log: EventLog, { base, entries, last }: Of<'page'>, append: Append) {
  const removed: Entry[] = []
  if (!log.holds(base)) {
    // If this log ends before the master's begins, the node missed too much, but its entries are valid: they
    // precede the master's and stay on disk. Entries of any other log are submitted again.
    const away = log.last.idx < base.idx
    const before = log.restart(base)
    if (!away) removed.push(...before)
  }
  for (const entry of entries) {
    if (log.holds(entry)) continue
    removed.push(...log.cut(entry.prev))
    if (!append(entry)) return { state: 'broken' as const, removed }
  }
  if (!samePosition(entries.at(-1) ?? base, last)) return { state: 'more' as const, removed }
  if (log.last.idx > last.idx) removed.push(...log.cut(last.idx))
  return { state: 'whole' as const, removed }
}

/** Appends the entries that continue the log, up to a position. Returns whether there were any. */
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
