import { defineService } from '../../kernel/index.js'

export type { ShownSpan, TraceHead } from './trace-file.js'

export interface TraceCounters {
  /** Finished requests. */
  recorded: number
  written: number
  /** Not written: the queue was full, or the write failed. */
  droppedQueue: number
  droppedDisk: number
  /** Spans that were over the limit of their trace. */
  droppedSpans: number
  exported: number
  /** Not exported: the queue was full, or sending failed. */
  exportDropped: number
}

export interface Tracing {
  readonly enabled: boolean
  counters (): TraceCounters
}
export const TracingService = defineService<Tracing>('tracing')
