import { defineService } from '../../kernel/index.js'

export type { ShownSpan, TraceHead } from './trace-file.js'

export interface TraceCounters {
  /** Requests recorded to their end. */
  recorded: number
  written: number
  /** Not written: too many waited, or the disk did not take them. */
  droppedQueue: number
  droppedDisk: number
  /** Spans that found no room in their trace. */
  droppedSpans: number
  exported: number
  /** Not exported: too many waited, or the receiver did not take them. */
  exportDropped: number
}

export interface Tracing {
  /** Whether new requests are traced, in the whole cluster. */
  readonly enabled: boolean
  counters (): TraceCounters
}
export const TracingService = defineService<Tracing>('tracing')
