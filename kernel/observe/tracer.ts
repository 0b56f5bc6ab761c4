import { defineService } from '../api/service.js'
import type { SpanAttrs, SpanSink } from '../api/engine.js'

/** Header by which a node asks another one to record a request too and to send what it recorded. */
export const TRACE_HEADER = 'x-svc-trace'

/** What a request became. */
export interface TracedTask { taskId: string, modelId: string, capability: string }

/** The way of a traced request to another process and back. */
export interface Hop {
  /** Value of the W3C header that makes this hop the parent of what the other process does. */
  readonly traceparent: string
  /** The hop is over; `part` is what the other process recorded, unchecked. Only the first call counts. */
  done (part?: unknown): void
}

/** Where a hop goes: the ids of a node, or the runner of this one. */
export interface HopTarget { nodeId: string | null, installId: string | null }

/** How a traced request ended; `reason` is null for a clean end, `taskId` when it became no task. */
export interface TraceEnd {
  kind: 'completed' | 'failed' | 'cancelled'
  reason: string | null
  taskId: string | null
}

/** One traced request at one node. Times are the node's monotonic milliseconds. */
export interface Trace extends SpanSink {
  /** Names the task that the request became; the last name counts. Without one nothing is kept. */
  task (about: TracedTask): void
  /** Facts of the whole request. */
  note (attrs: SpanAttrs): void
  hop (name: string, to: HopTarget, attrs?: SpanAttrs): Hop
  /** What was recorded here, for the node that asked for it: it keeps the trace, and this one does not. */
  part (): unknown
  /** The request is over. */
  end (how: TraceEnd): void
}

/** How a traced request begins. */
export interface TraceStart {
  commandId: string
  /** The capability or route that was called. */
  name: string
  /** Monotonic milliseconds of its first byte, where that was noted. */
  arrivedMs: number | undefined
  /** The W3C header it came with. */
  traceparent: string | undefined
  /** Another node records the request and wants this node's part of it. */
  member: boolean
}

/** Records requests; given to `Tracers`. */
export interface Tracer {
  /** Whether new requests are recorded. Read for every request: a plain field. */
  readonly enabled: boolean
  begin (start: TraceStart): Trace
}

/** The tracer of this node, if a plugin has set one. Without it nothing is recorded. */
export interface Tracers {
  /** True while new requests are recorded. */
  readonly on: boolean
  /** Undefined when there is nothing to record, or nobody who does. */
  begin (start: TraceStart): Trace | undefined
  /** Has `tracer` record requests from now on; returns what ends that. */
  use (tracer: Tracer): () => void
}
export const TracerService = defineService<Tracers>('kernel.tracer')

export function createTracers (): Tracers {
  let tracer: Tracer | undefined
  return {
    get on () { return tracer !== undefined && tracer.enabled },
    begin: (start) =>
      tracer !== undefined && (tracer.enabled || start.member) ? tracer.begin(start) : undefined,
    use (next) {
      tracer = next
      return () => { if (tracer === next) tracer = undefined }
    }
  }
}

/** Does the work, as a span of the trace when there is one. */
export async function timed<T> (
  trace: Trace | undefined, name: string, category: string, work: () => Promise<T>
): Promise<T> {
  if (trace === undefined) return await work()
  const startMs = trace.now()
  try {
    return await work()
  } finally {
    trace.span(name, category, startMs, trace.now())
  }
}

/** Headers by which another node records its part of the request too; none without a trace. */
export function traceHeaders (hop: Hop | undefined): Record<string, string> {
  return hop === undefined ? {} : { [TRACE_HEADER]: '1', traceparent: hop.traceparent }
}
