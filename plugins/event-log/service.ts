import { defineService } from '../../kernel/index.js'
import type { ShownEvent } from './page.js'
import type { StoreStatus } from './store/types.js'

/** How the event log is. */
export interface EventLogView {
  /** Of the store: mode, what was counted or dropped, gaps, bytes on disk. */
  status (): StoreStatus
  /** Index of the newest event. */
  readonly lastIdx: number
  /** Index of the oldest event kept, in memory or on disk; null when there is none. */
  readonly firstIdx: number | null
  /** The newest events of the whole cluster, of those in memory: at most so many, oldest first. */
  newest (limit: number): ShownEvent[]
  /** Own events that are not in the log yet. */
  readonly waiting: number
}
export const EventLogService = defineService<EventLogView>('event-log.log')
