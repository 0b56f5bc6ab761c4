import { defineService } from '../api/service.js'
import type { SpanAttrs, SpanSink } from '../api/engine.js'

/** Request header that asks another node to trace the request too and to return its part of the trace. */
export const TRACE_HEADER = 'x-svc-trace'

export interface TracedTask { taskId: string, modelId: string, capability: string }

/** A traced request's round trip to another process. */
export interface Hop {
  /** W3C header value that makes this hop the parent of the other process's spans. */
  readonly traceparent: string
  /** Ends the hop; `part` is the other process's part of the trace, unchecked. Only the first call counts. */
  done (part?: unknown): void
}

/** The node at the other end of a hop; both ids are null for a runner on this node. */
export interface HopTarget { nodeId: string | null, installId: string | null }

/** How a traced request ended; `reason` is null for success, `taskId` if the request created no task. */
export interface TraceEnd {
  kind: 'completed' | 'failed' | 'cancelled'
  reason: string | null
  taskId: string | null
}

/** A traced request at one node. Times are monotonic milliseconds of that node. */
export interface Trace extends SpanSink {
  /** Names the task that the request became; the last call counts. A trace without a task is not stored. */
  task (about: TracedTask): void
  /** Adds attributes to the whole request. */
  note (attrs: SpanAttrs): void
  hop (name: string, to: HopTarget, attrs?: SpanAttrs): Hop
  /** This node's part of the trace, for the node that asked for it and that stores the trace. */
  part (): unknown
  end (how: TraceEnd): void
}

export interface TraceStart {
  commandId: string
  /** Name of the called capability or route. */
  name: string
  /** Arrival of the request's first byte in monotonic milliseconds, if recorded. */
  arrivedMs: number | undefined
  /** The request's W3C `traceparent` header. */
  traceparent: string | undefined
  /** True if another node traces the request and needs this node's part. */
  member: boolean
}

export interface Tracer {
  /** Whether new requests are recorded. A plain field, since it is read for every request. */
  readonly enabled: boolean
  begin (start: TraceStart): Trace
}

/** Registers this node's tracer, which a plugin provides. Without a tracer, requests are not recorded. */
export interface Tracers {
  /** True while new requests are recorded. */
  readonly on: boolean
  /** Starts a trace; undefined if there is no tracer or nothing to record. */
  begin (start: TraceStart): Trace | undefined
  /** Sets the tracer; returns a function that removes it. */
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

/** Runs `work` as a span of the trace, if there is one. */
export async function timed<T> (
  trace: Trace | undefined, name: string, category: string, work: () => Promise<T>
): Promise<T> {
  if (trace === undefined) return await work()
  const startMs = trace.now()
  try { return await work() } finally { trace.span(name, category, startMs, trace.now()) }
}

/** Headers that make another node record its part of the request; empty without a trace. */
export function traceHeaders (hop: Hop | undefined): Record<string, string> {
  return hop === undefined ? {} : { [TRACE_HEADER]: '1', traceparent: hop.traceparent }
}
