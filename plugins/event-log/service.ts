import { defineService } from '../../kernel/index.js'
import type { ShownEvent } from './reading/page.js'
import type { StoreStatus } from './store/types.js'

export interface EventLogView {
  /** State of the store: mode, events counted or dropped, gaps, bytes on disk. */
  status (): StoreStatus
  readonly lastIdx: number
  /** Index of the oldest event, in memory or on disk, or null. */
  readonly firstIdx: number | null
  /** The newest events in memory, from the whole cluster, oldest first, at most `limit`. */
  newest (limit: number): ShownEvent[]
  readonly waiting: number
}
export const EventLogService = defineService<EventLogView>('event-log.log')
