import { kindOf, type Entry } from '../log/entries.js'
import { firstAfter, type EventLog } from '../log/log.js'
import { merged, within, type Range } from '../store/gaps.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { routes } from '../routes.js'
import type { EventStore } from '../store/store.js'
import type { StoreQuery } from '../store/types.js'
import type { Query } from './query.js'

/** Sources of events: the newest from memory, older ones from the disk. */
export interface Source { readonly log: EventLog, readonly store: EventStore }

/** Reads a page of the log, from memory if that reaches back far enough. Rejects like the store's `read`. */
export async function readLog ({ log, store }: Source, query: StoreQuery): Promise<Entry[]> {
  const { limit, newest = false } = query
  const base = log.base.idx
  const recent = recentOf(log, query)
  const missing = newest ? limit - recent.length : limit
  const older = query.after >= base || missing <= 0
    ? []
    : await store.read({ ...query, until: Math.min(query.until ?? base, base), limit: missing })
  return part([...older, ...recent], query)
}

/** The page's entries that are in memory, regardless of its limit. */
function recentOf (log: EventLog, query: StoreQuery): Entry[] {
  const { after, until = Infinity } = query
  return log.entries.slice(firstAfter(log.entries, after)).filter((entry) =>
    entry.idx <= until && isWanted(entry, query))
}

const part = (entries: readonly Entry[], { limit, newest = false }: StoreQuery): Entry[] =>
  newest ? entries.slice(-limit) : entries.slice(0, limit)

/** Whether an entry matches the kinds, nodes and times in the query. */
export function isWanted (entry: Entry, { kinds, origins, sinceMs }: Query['wanted']): boolean {
  return (kinds === undefined || kinds.includes(kindOf(entry.event))) &&
    (origins === undefined || origins.includes(entry.origin)) &&
    (sinceMs === undefined || Date.parse(entry.at) >= sinceMs)
}

/** Index of the oldest event, in memory or on disk, or null. */
export function firstIdx ({ log, store }: Source): number | null {
  const all = [store.status().firstIdx, log.entries[0]?.idx ?? null].filter((idx) => idx !== null)
  return all.length === 0 ? null : Math.min(...all)
}

/** Ranges of indices that this node never stored or has deleted. */
export function missingOf ({ log, store }: Source): Range[] {
  const { firstIdx, gaps } = store.status()
  return firstIdx === null ? merged([[1, log.base.idx], ...gaps]) : [...gaps]
}

export type ShownEvent = Pick<Entry, 'idx' | 'at' | 'origin' | 'id' | 'event'> & { sessionId: string }

export type EventsPage = Omit<FromSchema<typeof routes.list.reply>, 'events' | 'gaps'> &
  { events: ShownEvent[], gaps?: Range[] }

export function shown ({ idx, at, origin, sid, id, event }: Entry): ShownEvent {
  return { idx, at, origin, sessionId: sid, id, event }
}

/** The oldest events after `since` that match the query; the newest if `since` is absent. */
export async function pageOf (source: Source, query: Query, sessionId: string): Promise<EventsPage> {
  const { log, store } = source
  const { mode, counted } = store.status()
  const nextIdx = log.last.idx + 1
  const newest = query.sinceIdx === null && query.wanted.sinceMs === undefined
  const search = { ...query.wanted, after: query.sinceIdx ?? 0, limit: query.limit, newest }
  const base = log.base.idx
  // If the disk does not respond, use only the entries in memory.
  const recent = part(recentOf(log, search), search)
  const read = await readLog(source, search).catch(() => null)
  const entries = read ?? recent
  const unread: Range[] = read !== null || newest ? [] : [[search.after + 1, base]]
  const from = query.sinceIdx ?? entries[0]?.idx ?? log.last.idx
  const to = entries.length < query.limit ? log.last.idx : entries.at(-1)!.idx
  const gaps = within(merged([...missingOf(source), ...unread]), from + 1, to)
  return {
    sessionId, mode, counted, firstIdx: firstIdx(source) ?? nextIdx, nextIdx, events: entries.map(shown),
    ...(gaps.length === 0 ? {} : { gaps }),
    ...(read === null || mode === 'counting-only' ? { degraded: true } : {})
  }
}

export async function startOf (source: Source, { sinceIdx, limit, wanted }: Query): Promise<number> {
  const { log } = source
  if (sinceIdx !== null) return sinceIdx
  const newest = wanted.sinceMs === undefined
  if (newest && limit === 0) return log.last.idx
  const search = { ...wanted, after: 0, limit: newest ? limit : 1, newest }
  const [oldest] = await readLog(source, search).catch(() => [])
  return oldest?.prev ?? log.base.idx
}
