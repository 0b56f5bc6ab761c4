import { firstAfter } from './log.js'
import { matching } from './store/queue.js'
import type { Entry } from './entries.js'
import type { EventLog } from './log.js'
import type { EventStore, StoreQuery } from './store/types.js'

/** Where events are read: the newest from memory, older ones from the disk. */
export interface Source { readonly log: EventLog, readonly store: EventStore }

/**
 * Reads a page of the whole log, without the disk where memory goes back far enough. Of memory it has the
 * entries at the time of the call. Rejects as the store's `read` does.
 */
export async function readLog (
  { log, store }: Pick<Source, 'log'> & { store: Pick<EventStore, 'read'> }, query: StoreQuery
): Promise<Entry[]> {
  const { after, limit, newest = false } = query
  const base = log.base.idx
  const recent = matching(log.entries.slice(firstAfter(log.entries, after)), query)
  const wanted = newest ? limit - recent.length : limit
  const older = after >= base || wanted <= 0
    ? []
    : await store.read({ ...query, until: Math.min(query.until ?? base, base), limit: wanted })
  const all = [...older, ...recent]
  return newest ? all.slice(-limit) : all.slice(0, limit)
}

/** Index of the oldest event kept, in memory or on disk; null when there is none. */
export function firstIdx ({ log, store }: Source): number | null {
  const all = [store.status().firstIdx, log.entries[0]?.idx ?? null].filter((idx) => idx !== null)
  return all.length === 0 ? null : Math.min(...all)
}
