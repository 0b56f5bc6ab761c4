import { defineService } from '../../kernel/index.js'
import type { ShownEvent } from './reading/page.js'
import type { StoreStatus } from './store/types.js'

/** The event log for other plugins. */
export interface EventLogView {
  /** State of the store: mode, events counted or dropped, gaps, bytes on disk. */
  status (): StoreStatus
  /** Index of the newest event. */
  readonly lastIdx: number
  /** Index of the oldest event kept, in memory or on disk; null when there is none. */
  readonly firstIdx: number | null
  /** The newest events of the whole cluster, oldest first: at most so many, and only those in memory. */
  newest (limit: number): ShownEvent[]
  readonly waiting: number
}
export const EventLogService = defineService<EventLogView>('event-log.log')
