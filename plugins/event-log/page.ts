import { firstAfter } from './log.js'
import type { Entry, TaggedEvent } from './entries.js'
import type { EventLog } from './log.js'
import type { Query } from './query.js'

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
  mode: 'normal' | 'counting-only'
  counted: number
  firstIdx: number
  nextIdx: number
  events: ShownEvent[]
  gaps?: [from: number, to: number][]
}

export function shown ({ idx, at, origin, sid, id, event }: Entry): ShownEvent {
  return { idx, at, origin, sessionId: sid, id, event }
}

/** The oldest events that are asked for behind `since`; without a `since` the newest. */
export function pageOf (log: EventLog, query: Query, sessionId: string): EventsPage {
  const { sinceIdx, sinceMs, limit } = query
  const from = sinceIdx === null ? 0 : firstAfter(log.entries, sinceIdx)
  const wanted = log.entries.slice(from).filter(query.wants)
  const newest = sinceIdx === null && sinceMs === null
  const events = newest ? wanted.slice(-limit) : wanted.slice(0, limit)
  const lost = sinceIdx !== null && sinceIdx < log.base.idx
  return {
    sessionId,
    mode: 'normal',
    counted: 0,
    firstIdx: log.entries[0]?.idx ?? log.last.idx + 1,
    nextIdx: log.last.idx + 1,
    events: events.map(shown),
    ...(lost ? { gaps: [[sinceIdx + 1, log.base.idx]] } : {})
  }
}

/** Where a followed stream begins: behind this index. */
export function startOf (log: EventLog, query: Query): number {
  const { sinceIdx, sinceMs, limit } = query
  if (sinceIdx !== null) return sinceIdx
  if (sinceMs !== null) return log.base.idx
  if (limit === 0) return log.last.idx
  const first = log.entries.filter(query.wants).at(-limit)
  return first?.prev ?? log.base.idx
}
