import type { SpanAttrs, SpanPlace } from '../../kernel/index.js'

/** Ids of tasks and commands: nothing that could lead out of a folder. */
export const TRACE_ID = /^[0-9A-Za-z][0-9A-Za-z-]{0,63}$/

/** A span of a finished trace. Times are whole microseconds since 1970, by the clock of the first node. */
export interface TraceSpan {
  place: number
  name: string
  category: string
  startUs: number
  durationUs: number
  /** How many steps of a series it stands for; 0 for a single span. */
  steps: number
  attrs: SpanAttrs
}

/** A process whose spans are in the trace. */
export interface TracePlace { nodeId: string, name: string, process: SpanPlace['process'], rank: number }

/** How far the clock of a place was ahead of the first node's; its spans have been moved by that. */
export interface TraceClock {
  nodeId: string
  process: SpanPlace['process']
  offsetUs: number
  uncertaintyUs: number
}

/** Everything about a trace but its spans. */
export interface TraceHead {
  taskId: string
  commandId: string
  /** ISO-8601. */
  createdAt: string
  modelId: string
  taskKind: string
  durationUs: number
  outcome: 'completed' | 'failed' | 'cancelled'
  reason: string | null
  /** Of the W3C trace context; the parent is null where the request began here. */
  traceId: string
  spanId: string
  parentSpanId: string | null
  /** The first one is the node where the request entered. */
  places: TracePlace[]
  clocks: TraceClock[]
  droppedSpans: number
}

/** A finished trace. The first span is that of the whole request. */
export interface TraceRecord extends TraceHead { spans: TraceSpan[] }
