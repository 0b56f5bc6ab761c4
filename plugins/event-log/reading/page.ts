import { kindOf } from '../log/entries.js'
import { firstAfter } from '../log/log.js'
import { merged, within } from '../store/gaps.js'
import type { Entry, TaggedEvent } from '../log/entries.js'
import type { EventLog } from '../log/log.js'
import type { Range } from '../store/gaps.js'
import type { EventStore, StoreQuery, StoreStatus } from '../store/types.js'
import type { Query } from './query.js'

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

/** Those of the entries that a query asks for; its limit is left aside. */
function matching (entries: readonly Entry[], query: StoreQuery): Entry[] {
  const { after, until = Infinity, kinds, origins, sinceMs } = query
  return entries.filter((entry) => entry.idx > after && entry.idx <= until &&
    (kinds === undefined || kinds.includes(kindOf(entry.event))) &&
    (origins === undefined || origins.includes(entry.origin)) &&
    (sinceMs === undefined || Date.parse(entry.at) >= sinceMs))
}

/** Index of the oldest event kept, in memory or on disk; null when there is none. */
export function firstIdx ({ log, store }: Source): number | null {
  const all = [store.status().firstIdx, log.entries[0]?.idx ?? null].filter((idx) => idx !== null)
  return all.length === 0 ? null : Math.min(...all)
}

/** An event as clients see it. */
export interface ShownEvent {
  idx: number
  at: string
  origin: string
  sessionId: string
  id: string
  event: TaggedEvent
}

/** The answer of GET /events. */
export interface EventsPage {
  sessionId: string
  mode: StoreStatus['mode']
  counted: number
  firstIdx: number
  nextIdx: number
  events: ShownEvent[]
  gaps?: Range[]
  degraded?: true
}

export function shown ({ idx, at, origin, sid, id, event }: Entry): ShownEvent {
  return { idx, at, origin, sessionId: sid, id, event }
}

/** The oldest events after `since`, as the query wants them; without a `since` the newest. */
export async function pageOf (source: Source, query: Query, sessionId: string): Promise<EventsPage> {
  const { log, store } = source
  const status = store.status()
  const nextIdx = log.last.idx + 1
  const { entries, unread } = await read(source, query)
  const gaps = await gapsOf(source, query, entries, unread)
  return {
    sessionId,
    mode: status.mode,
    counted: status.counted,
    firstIdx: firstIdx(source) ?? nextIdx,
    nextIdx,
    events: entries.map(shown),
    ...(gaps.length === 0 ? {} : { gaps }),
    ...(unread !== null || status.mode === 'counting-only' ? { degraded: true } : {})
  }
}

/** `unread`: the indices that could not be read from the disk. */
async function read (
  { log, store }: Source, query: Query
): Promise<{ entries: readonly Entry[], unread: Range | null }> {
  const { sinceIdx, sinceMs, limit } = query
  const newest = sinceIdx === null && sinceMs === null
  const after = sinceIdx ?? 0
  const base = log.base.idx
  const search = { ...searchOf(query), after, limit, newest }
  try {
    return { entries: await readLog({ log, store }, search), unread: null }
  } catch {
    const entries = await readLog({ log, store: { read: async () => [] } }, search)
    return { entries, unread: newest ? null : [after + 1, base] }
  }
}

function searchOf ({ kinds, origins, sinceMs }: Query): Pick<StoreQuery, 'kinds' | 'origins' | 'sinceMs'> {
  return {
    ...(kinds === undefined ? {} : { kinds }),
    ...(origins === undefined ? {} : { origins }),
    ...(sinceMs === null ? {} : { sinceMs })
  }
}

/** Indices between the page's ends that are not stored on this node, or could not be read. */
async function gapsOf (
  source: Source, { sinceIdx, limit }: Query, entries: readonly Entry[], unread: Range | null
): Promise<Range[]> {
  const { log, store } = source
  const from = sinceIdx ?? entries[0]?.idx ?? log.last.idx
  const to = entries.length < limit ? log.last.idx : entries.at(-1)!.idx
  const before = sinceIdx === null ? null : await lostBefore(source, sinceIdx)
  const all = [...store.status().gaps, ...[before, unread].filter((range) => range !== null)]
  return within(merged(all), from + 1, to)
}

/** The indices after `since` that are older than anything this node keeps. */
async function lostBefore ({ log, store }: Source, since: number): Promise<Range | null> {
  const { firstIdx } = store.status()
  if (since >= log.base.idx || (firstIdx !== null && since >= firstIdx - 1)) return null
  if (firstIdx === null) return [since + 1, log.base.idx]
  const [oldest] = await store.read({ after: 0, limit: 1 }).catch(() => [])
  const end = oldest?.prev ?? firstIdx - 1
  return end > since ? [since + 1, end] : null
}

/** The index after which a followed stream begins. */
export async function startOf (source: Source, query: Query): Promise<number> {
  const { log } = source
  const { sinceIdx, sinceMs, limit } = query
  if (sinceIdx !== null) return sinceIdx
  if (sinceMs === null && limit === 0) return log.last.idx
  const search = { ...searchOf(query), after: 0 }
  const [oldest] = await readLog(source,
    sinceMs === null ? { ...search, limit, newest: true } : { ...search, limit: 1 }).catch(() => [])
  return oldest?.prev ?? log.base.idx
}
