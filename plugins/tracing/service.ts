import { defineService } from '../../kernel/index.js'

export type { ShownSpan, TraceHead } from './trace-file.js'

export interface TraceCounters {
  /** Recorded requests that have finished. */
  recorded: number
  written: number
  /** Traces not written, because the queue was full or the write failed. */
  droppedQueue: number
  droppedDisk: number
  /** Spans dropped because their trace had reached its limit. */
  droppedSpans: number
  exported: number
  /** Traces not exported, because the queue was full or sending failed. */
  exportDropped: number
}

export interface Tracing { readonly enabled: boolean, counters (): TraceCounters }
export const TracingService = defineService<Tracing>('tracing')
