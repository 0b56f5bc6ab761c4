import { defineService } from '../../kernel/index.js'
import type { ShownEvent } from './reading/page.js'
import type { StoreStatus } from './store/types.js'

/** What other plugins may ask the event log. */
export interface EventLogView {
  /** State of the store: mode, events counted or dropped, gaps, bytes on disk. */
  status (): StoreStatus
  /** Index of the newest event. */
  readonly lastIdx: number
  /** Index of the oldest event kept, in memory or on disk; null when there is none. */
  readonly firstIdx: number | null
  /** The newest events of the whole cluster, oldest first: at most so many, and only those in memory. */
  newest (limit: number): ShownEvent[]
  /** Events of this node that are not in the log yet. */
  readonly waiting: number
}
export const EventLogService = defineService<EventLogView>('event-log.log')
