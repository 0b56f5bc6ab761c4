import type { Attributes, HrTime } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import { delay, outgoingAgent, type Clock, type Logger } from '../../kernel/index.js'
import { spanIdOf } from './traceparent.js'
import type { TraceRecord } from './recording.js'
import type { TraceCounters } from './service.js'

export interface OtlpParts {
  url: string
  headers: Record<string, string>
  clock: Clock
  log: Logger
  counters: TraceCounters
  node: { name: string, nodeId: string, version: string }
  /** Timeout for sending one trace, including retries. */
  timeoutMs?: number
}

/** Maximum number of traces queued for the receiver; any more are dropped. */
const WAITING_MAX = 64
const TIMEOUT_MS = 10_000
/** Maximum ms that a stopping node waits for the trace that is being sent. */
const CLOSE_MS = 2000
/** Shortest interval in ms between warnings about a failing receiver. */
const WARN_INTERVAL_MS = 60_000

interface Sender { send (record: TraceRecord): Promise<void>, shutdown (): Promise<void> }

export type Otlp = ReturnType<typeof createOtlp>

export function createOtlp (parts: OtlpParts) {
  const { clock, log, counters } = parts
  const waiting: TraceRecord[] = []
  let sender: Promise<Sender> | undefined
  let sending: Promise<void> | null = null
  let warnedMs = -Infinity
  let closed = false
  const failed = (error: unknown): void => {
    counters.exportDropped++
    if (clock.mono() - warnedMs < WARN_INTERVAL_MS) return
    warnedMs = clock.mono()
    const why = error instanceof Error ? error.message : String(error)
    log.warn({ error: why, dropped: counters.exportDropped }, 'cannot export traces to tracing.otlp_url')
  }
  const sendAll = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined && !closed; next = waiting.shift()) {
      try {
        // The exporter is loaded only when the first trace arrives, because most nodes never export.
        sender ??= openSender(parts)
        await (await sender).send(next)
        counters.exported++
      } catch (error) {
        failed(error)
      }
    }
    sending = null
  }
  return {
    push (record: TraceRecord): void {
      if (closed || waiting.length >= WAITING_MAX) {
        counters.exportDropped++
        return
      }
      waiting.push(record)
      sending ??= sendAll()
    },
    /** Resolves when the queue is empty. */
    async idle () { while (sending !== null) await sending },
    /** Drops the queue and waits up to 2 s for the trace that is being sent. */
    async close () {
      closed = true
      counters.exportDropped += waiting.splice(0).length
      // A sender that failed to open needs no shutdown.
      const ended = sender?.then((opened) => opened.shutdown(), () => {})
      if (ended !== undefined) await Promise.race([ended, delay(clock, CLOSE_MS)])
    }
  }
}

/** The receiver's address; a URL without a path is its base, as in OTEL_EXPORTER_OTLP_ENDPOINT. */
function tracesUrl (url: string): string {
  const { pathname, search } = new URL(url)
  return pathname === '/' ? new URL(`/v1/traces${search}`, url).href : url
}

async function openSender ({ url, headers, timeoutMs = TIMEOUT_MS, node }: OtlpParts): Promise<Sender> {
  const [{ OTLPTraceExporter }, { resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/exporter-trace-otlp-http'), import('@opentelemetry/resources')
  ])
  const exporter = new OTLPTraceExporter({
    url: tracesUrl(url), headers, timeoutMillis: timeoutMs,
    httpAgentOptions: () => outgoingAgent(url, 'named')
  })
  const resource = resourceFromAttributes({
    'service.name': 'svc', 'service.version': node.version, 'service.instance.id': node.nodeId,
    'host.name': node.name
  })
  return {
    send: (record) => new Promise((resolve, reject) => {
      exporter.export(readable(record, resource, node.version), ({ code, error }) => {
        if (code === 0) resolve()
        else reject(error ?? new Error('the receiver refused the trace'))
      })
    }),
    shutdown: () => exporter.shutdown()
  }
}

const SERVER = 1
const INTERNAL = 0
const STATUS = { unset: 0, error: 2 } as const

const timeOf = (us: number): HrTime => [Math.floor(us / 1e6), us % 1e6 * 1000]

/** OpenTelemetry operation names by task kind; other kinds keep their name. */
const OPERATIONS: Readonly<Record<string, string>> = {
  chat: 'chat', completion: 'text_completion', completions: 'text_completion', embedding: 'embeddings',
  embeddings: 'embeddings', tts: 'text_to_speech', stt: 'speech_to_text'
}

const operationOf = ({ taskKind }: Pick<TraceRecord, 'taskKind'>): string => OPERATIONS[taskKind] ?? taskKind

/** Attributes of the root span, with names of OpenTelemetry's gen_ai conventions if they have one. Pure. */
export function genAiAttributes (record: TraceRecord): Attributes {
  const { modelId, taskId, commandId, reason, spans } = record
  const tokens = (name: string): number => spans.reduce((sum, { attrs }) => {
    const value = attrs[name]
    return typeof value === 'number' ? sum + value : sum
  }, 0)
  const [input, output] = [tokens('input_tokens'), tokens('output_tokens')]
  return {
    'gen_ai.operation.name': operationOf(record), 'gen_ai.provider.name': 'svc',
    'gen_ai.request.model': modelId, 'gen_ai.response.model': modelId, 'gen_ai.response.id': commandId,
    ...(input > 0 ? { 'gen_ai.usage.input_tokens': input } : {}),
    ...(output > 0 ? { 'gen_ai.usage.output_tokens': output } : {}),
    ...(reason === null ? {} : { 'error.type': reason }), 'svc.task.id': taskId,
    'svc.command.id': commandId
  }
}

/** Converts a finished trace to OpenTelemetry spans. Pure. */
export function readable (
  record: TraceRecord, resource: ReadableSpan['resource'], version: string
): ReadableSpan[] {
  const { traceId, spanId, parentSpanId, places, spans, outcome } = record
  const context = (id: string): ReturnType<ReadableSpan['spanContext']> =>
    ({ traceId, spanId: id, traceFlags: 1 })
  return spans.map((span): ReadableSpan => {
    const root = span.parent === null
    const parent = span.parent === null ? parentSpanId : spanIdOf(spanId, span.parent)
    const place = places[span.place]
    const attributes: Attributes = {
      ...(root ? genAiAttributes(record) : {}),
      'svc.category': span.category,
      'svc.node.id': place?.nodeId ?? '',
      'svc.process': place?.process ?? 'node',
      ...(span.steps > 1 ? { 'svc.steps': span.steps } : {}),
      ...Object.fromEntries(Object.entries(span.attrs).map(([key, value]) => [`svc.${key}`, value]))
    }
    const failed = root && outcome === 'failed'
    return {
      name: root ? `${operationOf(record)} ${record.modelId}`.trim() : span.name,
      kind: root ? SERVER : INTERNAL,
      spanContext: () => context(spanIdOf(spanId, span.id)),
      ...(parent === null ? {} : { parentSpanContext: { ...context(parent), isRemote: root } }),
      startTime: timeOf(span.startUs),
      endTime: timeOf(span.startUs + span.durationUs),
      duration: timeOf(span.durationUs),
      status: { code: failed ? STATUS.error : STATUS.unset },
      attributes, links: [], events: [], ended: true, resource,
      instrumentationScope: { name: 'svc', version },
      droppedAttributesCount: 0, droppedEventsCount: 0, droppedLinksCount: 0
    }
  })
}
