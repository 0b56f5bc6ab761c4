import { boundsOf, clockOffset, openObject } from '../../kernel/index.js'
import type {
  Clock, Context, FromSchema, Hop, HopTarget, SpanAttrs, TracedTask, Trace, TraceEnd, TraceStart
} from '../../kernel/index.js'
import { ROOT, toSentSpan, SpanRecorder, SPANS_MAX } from '../runners/service.js'
import { readTraceparent, spanIdOf, writeTraceparent } from './traceparent.js'
import type { PlacedSpan } from '../runners/service.js'

/** Longest wait in ms, after a request has finished, for the spans of other processes. */
const PARTS_MS = 2000
/** Spans of another process that lie more than this many ms outside the request to it are dropped. */
const TOLERANCE_MS = 1000

const MICROS_MAX = 86_400_000_000
const text = { type: 'string', maxLength: 128 } as const
const duration = { type: 'integer', minimum: 0, maximum: MICROS_MAX } as const
const count = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const
const process = { enum: ['node', 'runner'] } as const
const nodeId = { type: ['string', 'null'], maxLength: 128 } as const

/** The record of one process, as sent to the node that requested it. Times are by the sender's clock. */
const schema = openObject({
  /** Arrival of the work and creation of this record, in ms. */
  receivedMs: { type: 'number' },
  sentMs: { type: 'number' },
  /** Processes with spans in the trace; `nodeId` is null for the node that reads the trace. */
  places: { type: 'array', maxItems: 64, items: openObject({ nodeId, process, rank: count }) },
  /** Spans whose parent is not in the list are children of the span of the request to this process. */
  spans: {
    type: 'array',
    maxItems: SPANS_MAX,
    items: openObject({
      id: count, parent: { type: ['integer', 'null'] }, place: count, name: text, category: text,
      startUs: { ...duration, minimum: -MICROS_MAX }, durationUs: duration, steps: count,
      attrs: {
        type: 'object', maxProperties: 32, propertyNames: { maxLength: 128 },
        additionalProperties: { type: ['string', 'number', 'boolean'], maxLength: 128 }
      }
    }, ['id', 'parent', 'place', 'name', 'category', 'startUs', 'durationUs', 'steps'])
  },
  clocks: {
    type: 'array',
    maxItems: 64,
    items: openObject({ nodeId, process, offsetMs: { type: 'number' }, uncertaintyMs: { type: 'number' } })
  },
  about: {
    ...openObject({ taskId: text, modelId: { type: 'string', maxLength: 256 }, capability: text }),
    type: ['object', 'null']
  },
  dropped: count
})

export type SpanPart = FromSchema<typeof schema>
type ReadPart = (value: unknown) => SpanPart | null

/** Creates a function that validates spans from another process and returns null for invalid ones. */
export function partReader ({ checker }: Pick<Context, 'checker'>): ReadPart {
  const problemOf = checker(schema)
  return (value) => {
    if (problemOf(value) !== null) return null
    const part = value as SpanPart
    const fits = part.sentMs >= part.receivedMs && part.spans.every(({ place }) => place < part.places.length)
    return fits ? part : null
  }
}

/** A trace of a request as it is stored. */
export type TraceRecord = ReturnType<Recording['whole']>

export interface RecordingParts {
  readPart: ReadPart
  clock: Clock
  /** Random bytes as hexadecimal digits. */
  randomHex (bytes: number): string
  nodeId: string
  nameOf (nodeId: string): string
  /** Called with the complete trace, after the spans of other processes have arrived or are overdue. */
  finished (record: TraceRecord): void
}

interface HopTimes { id: number, to: HopTarget, sentMs: number, backMs: number }

/** Records the spans of one request on this node. */
export class Recording extends SpanRecorder implements Trace {
  readonly #parts: RecordingParts
  readonly #start: TraceStart
  readonly #beganMs: number
  readonly #wallMs: number
  readonly #traceId: string
  readonly #parentSpanId: string | null
  readonly #spanId: string
  readonly #places: SpanPart['places'] = [{ nodeId: null, process: 'node', rank: 0 }]
  readonly #clocks: SpanPart['clocks'] = []
  /** Spans of other processes, moved to this node's clock. */
  readonly #adopted: PlacedSpan[] = []
  /** Number of spans from other processes dropped as invalid or over the limit. */
  #lost = 0
  #about: TracedTask | null = null
  #notes: SpanAttrs = {}
  #openHops = 0
  #handedOver = false
  #end: { how: TraceEnd, atMs: number } | null = null
  #finished = false
  #stopWaiting: () => void = () => {}

  constructor (parts: RecordingParts, start: TraceStart) {
    const { clock, randomHex } = parts
    super(() => clock.mono())
    const nowMs = clock.mono()
    const context = readTraceparent(start.traceparent)
    this.#parts = parts
    this.#start = start
    this.#beganMs = start.arrivedMs ?? nowMs
    this.#wallMs = clock.now() - (nowMs - this.#beganMs)
    this.#traceId = context?.traceId ?? randomHex(16)
    this.#parentSpanId = context?.parentSpanId ?? null
    this.#spanId = randomHex(8)
    if (start.arrivedMs !== undefined) this.span('parse', 'api', start.arrivedMs, nowMs)
  }

  task (about: TracedTask): void { this.#about = about }

  note (attrs: SpanAttrs): void { this.#notes = { ...this.#notes, ...attrs } }

  hop (name: string, to: HopTarget, attrs: SpanAttrs = {}): Hop {
    const sentMs = this.now()
    const open = this.open(name, name, sentMs)
    let over = false
    this.#openHops++
    return {
      traceparent: writeTraceparent(this.#traceId, spanIdOf(this.#spanId, open.id)),
      done: (part) => {
        if (over) return
        over = true
        const backMs = this.now()
        const read = this.#parts.readPart(part)
        const found = read === null
          ? { recorded: false }
          : this.#adopt(read, { id: open.id, to, sentMs, backMs })
        open.end({ ...attrs, ...found }, backMs)
        this.#openHops--
        if (this.#end !== null && this.#openHops === 0) this.#finish()
      }
    }
  }

  part () {
    const sentMs = this.now()
    this.#handedOver = true
    const spans = this.#all('task', sentMs, {})
    return {
      receivedMs: this.#beganMs, sentMs, places: this.#places, clocks: this.#clocks, about: this.#about,
      spans: spans.map((span) => toSentSpan(span, span.place, this.#beganMs)),
      dropped: this.#lost + this.dropped
    }
  }

  end (how: TraceEnd): void {
    if (this.#end !== null) return
    this.#end = { how, atMs: this.now() }
    if (this.#openHops === 0) this.#finish()
    else this.#stopWaiting = this.#parts.clock.after(PARTS_MS, () => { this.#finish() })
  }

  /** Adds the spans of another process; returns the attributes with its clock offset. */
  #adopt (part: SpanPart, { id, to, sentMs, backMs }: HopTimes): SpanAttrs {
    const own = boundsOf({ sentMs, arrivedMs: part.receivedMs, leftMs: part.sentMs, backMs })
    const { offsetMs, uncertaintyMs } = clockOffset(own)
    const first = this.#places.length
    this.#places.push(...part.places.map((place) => ({ ...place, nodeId: place.nodeId ?? to.nodeId })))
    const slackMs = uncertaintyMs + TOLERANCE_MS
    const ids = new Map(part.spans.map((span) => [span.id, this.newId()]))
    for (const { startUs, durationUs, ...span } of part.spans) {
      const startMs = part.receivedMs + startUs / 1000 - offsetMs
      const endMs = startMs + durationUs / 1000
      const fits = startMs >= sentMs - slackMs && endMs <= backMs + slackMs
      if (!fits || this.#adopted.length >= SPANS_MAX) this.#lost++
      else {
        this.#adopted.push({
          ...span, id: ids.get(span.id)!, parent: ids.get(span.parent ?? Number.NaN) ?? id,
          place: first + span.place, startMs, endMs
        })
      }
    }
    const process = to.installId === null ? 'runner' : 'node'
    this.#clocks.push({ nodeId: to.nodeId, process, offsetMs, uncertaintyMs })
    for (const note of part.clocks) {
      this.#clocks.push({
        nodeId: note.nodeId ?? to.nodeId, process: note.process,
        offsetMs: offsetMs + note.offsetMs, uncertaintyMs: uncertaintyMs + note.uncertaintyMs
      })
    }
    this.#about ??= part.about
    this.#lost += part.dropped
    return { clock_offset_us: micros(offsetMs), clock_uncertainty_us: micros(uncertaintyMs) }
  }

  /** All spans: the root, then the others by start. Spans with an unknown parent are moved to the root. */
  #all (name: string, endMs: number, attrs: SpanAttrs): PlacedSpan[] {
    const own = this.spans().map((span): PlacedSpan => ({ ...span, place: 0 }))
    const rest = [...own, ...this.#adopted].sort((a, b) => a.startMs - b.startMs)
    this.#lost += rest.splice(SPANS_MAX - 1).length
    const ids = new Set(rest.map(({ id }) => id))
    const root: PlacedSpan = {
      id: ROOT, parent: null, place: 0, name, category: 'request', startMs: this.#beganMs, endMs, steps: 0,
      attrs: { call: this.#start.name, ...this.#notes, ...attrs }
    }
    return [root, ...rest.map((span) => ids.has(span.parent ?? ROOT) ? span : { ...span, parent: ROOT })]
  }

  #finish (): void {
    if (this.#finished || this.#end === null) return
    this.#finished = true
    this.#stopWaiting()
    const { how, atMs } = this.#end
    const taskId = this.#about?.taskId ?? how.taskId
    // Do not store the trace if another node does, or if the request never became a task.
    if (this.#handedOver || taskId === null) return
    this.#parts.finished(this.whole(taskId, how, atMs))
  }

  /** The whole trace. Times are whole microseconds since 1970 by the clock of this node. */
  whole (taskId: string, { kind, reason }: TraceEnd, endMs: number) {
    const { nodeId: self, nameOf } = this.#parts
    const zero = this.#wallMs * 1000
    const outcome = reason === null ? { outcome: kind } : { outcome: kind, reason }
    const spans = this.#all('request', endMs, outcome).map(({ startMs, endMs, attrs = {}, ...span }) => ({
      ...span, attrs, startUs: Math.round(zero + (startMs - this.#beganMs) * 1000),
      durationUs: Math.max(0, micros(endMs - startMs))
    }))
    return {
      taskId, commandId: this.#start.commandId, createdAt: new Date(this.#wallMs).toISOString(),
      modelId: this.#about?.modelId ?? '', taskKind: this.#about?.capability ?? this.#start.name,
      durationUs: micros(endMs - this.#beganMs), outcome: kind, reason,
      /** Ids of the W3C trace context; the parent is null if the request began on this node. */
      traceId: this.#traceId, spanId: this.#spanId, parentSpanId: this.#parentSpanId,
      /** Processes with spans in the trace. */
      places: this.#places.map(({ nodeId, process, rank }) => {
        const id = nodeId ?? self
        return { nodeId: id, name: nameOf(id), process, rank }
      }),
      /** How far a process's clock is ahead of this node's; its spans are already corrected by this. */
      clocks: this.#clocks.map(({ nodeId, process, offsetMs, uncertaintyMs }) => ({
        nodeId: nodeId ?? self, process, offsetUs: micros(offsetMs), uncertaintyUs: micros(uncertaintyMs)
      })),
      droppedSpans: this.#lost + this.dropped,
      spans
    }
  }
}

const micros = (ms: number): number => Math.round(ms * 1000)
