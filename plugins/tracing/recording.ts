import {
  boundsOf, clockOffset, packPart, PART_SPANS_MAX, readPart, SpanRecorder, unpackSpans
} from '../../kernel/index.js'
import type {
  Bounds, Clock, ClockNote, Hop, HopTarget, PlacedSpan, SpanAttrs, SpanPart, SpanPlace, SpanSeries, TaskAbout,
  Trace, TraceEnd, TraceStart
} from '../../kernel/index.js'
import { readTraceparent, writeTraceparent } from './traceparent.js'
import type { TraceRecord } from './record.js'

/** How long a request that is over waits for what other processes recorded of it. */
const PARTS_MS = 2000
/** Spans of another process this far outside the time in which it was asked are nonsense. */
const TOLERANCE_MS = 1000

export interface RecordingParts {
  clock: Clock
  /** Hexadecimal digits of so many random bytes. */
  randomHex (bytes: number): string
  /** The node's own id, and what people call a node. */
  nodeId: string
  nameOf (nodeId: string): string
  /** What is known of another node's clock. */
  bounds (installId: string, nodeId: string): Bounds | undefined
  /** Gets the trace once it is complete. */
  finished (record: TraceRecord): void
}

/** The record of one request at one node. */
export class Recording implements Trace {
  readonly #parts: RecordingParts
  readonly #start: TraceStart
  readonly #recorder: SpanRecorder
  readonly #beganMs: number
  /** Wall time at `#beganMs`. */
  readonly #wallMs: number
  readonly #traceId: string
  readonly #parentSpanId: string | null
  readonly #spanId: string
  readonly #places: SpanPlace[] = [{ nodeId: null, process: 'node', rank: 0 }]
  readonly #clocks: ClockNote[] = []
  /** Of other processes, by the clock of this one. */
  readonly #adopted: PlacedSpan[] = []
  #dropped = 0
  #about: TaskAbout | null = null
  #notes: SpanAttrs = {}
  #openHops = 0
  #handedOver = false
  #end: { how: TraceEnd, atMs: number } | null = null
  #finished = false
  #stopWaiting: () => void = () => {}

  constructor (parts: RecordingParts, start: TraceStart) {
    const { clock, randomHex } = parts
    const nowMs = clock.mono()
    const context = readTraceparent(start.traceparent)
    this.#parts = parts
    this.#start = start
    this.#recorder = new SpanRecorder(() => clock.mono())
    this.#beganMs = start.arrivedMs ?? nowMs
    this.#wallMs = clock.now() - (nowMs - this.#beganMs)
    this.#traceId = context?.traceId ?? randomHex(16)
    this.#parentSpanId = context?.parentSpanId ?? null
    this.#spanId = randomHex(8)
    if (start.arrivedMs !== undefined) this.span('parse', 'api', start.arrivedMs, nowMs)
  }

  get traceparent (): string { return writeTraceparent(this.#traceId, this.#spanId) }

  now (): number { return this.#recorder.now() }

  span (name: string, category: string, startMs: number, endMs: number, attrs?: SpanAttrs): void {
    this.#recorder.span(name, category, startMs, endMs, attrs)
  }

  series (name: string, category: string): SpanSeries { return this.#recorder.series(name, category) }

  task (about: TaskAbout): void { this.#about = about }

  note (attrs: SpanAttrs): void { this.#notes = { ...this.#notes, ...attrs } }

  hop (name: string, to: HopTarget, attrs: SpanAttrs = {}): Hop {
    const sentMs = this.now()
    let over = false
    this.#openHops++
    return {
      done: (part) => {
        if (over) return
        over = true
        const backMs = this.now()
        const read = readPart(part)
        const found = read === null ? { recorded: false } : this.#adopt(read, to, sentMs, backMs)
        this.span(name, name, sentMs, backMs, { ...attrs, ...found })
        this.#openHops--
        if (this.#end !== null && this.#openHops === 0) this.#finish()
      }
    }
  }

  part (): SpanPart {
    const sentMs = this.now()
    this.#handedOver = true
    return packPart({
      receivedMs: this.#beganMs, sentMs,
      places: this.#places, clocks: this.#clocks, about: this.#about,
      spans: this.#all(this.#root('task', sentMs)),
      dropped: this.#dropped + this.#recorder.dropped
    })
  }

  end (how: TraceEnd): void {
    if (this.#end !== null) return
    this.#end = { how, atMs: this.now() }
    if (this.#openHops === 0) this.#finish()
    else this.#stopWaiting = this.#parts.clock.after(PARTS_MS, () => { this.#finish() })
  }

  /** Takes in what another process recorded; answers what that tells of its clock. */
  #adopt (part: SpanPart, to: HopTarget, sentMs: number, backMs: number): SpanAttrs {
    const own = boundsOf({ sentMs, arrivedMs: part.receivedMs, leftMs: part.sentMs, backMs })
    const known = to.installId === null || to.nodeId === null
      ? undefined
      : this.#parts.bounds(to.installId, to.nodeId)
    const { offsetMs, uncertaintyMs } = clockOffset(own, known)
    const first = this.#places.length
    this.#places.push(...part.places.map((place) => ({ ...place, nodeId: place.nodeId ?? to.nodeId })))
    const slackMs = uncertaintyMs + TOLERANCE_MS
    for (const span of unpackSpans(part)) {
      const [startMs, endMs] = [span.startMs - offsetMs, span.endMs - offsetMs]
      const fits = startMs >= sentMs - slackMs && endMs <= backMs + slackMs
      if (!fits || this.#adopted.length >= PART_SPANS_MAX) this.#dropped++
      else this.#adopted.push({ ...span, place: first + span.place, startMs, endMs })
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
    this.#dropped += part.dropped
    return { clock_offset_us: micros(offsetMs), clock_uncertainty_us: micros(uncertaintyMs) }
  }

  #root (name: string, endMs: number, attrs: SpanAttrs = {}): PlacedSpan {
    return {
      place: 0, name, category: 'request', startMs: this.#beganMs, endMs, steps: 0,
      attrs: { call: this.#start.name, ...this.#notes, ...attrs }
    }
  }

  #all (root: PlacedSpan): PlacedSpan[] {
    const own = this.#recorder.spans().map((span) => ({ ...span, place: 0 }))
    const rest = [...own, ...this.#adopted].sort((a, b) => a.startMs - b.startMs)
    this.#dropped += Math.max(0, rest.length - (PART_SPANS_MAX - 1))
    return [root, ...rest.slice(0, PART_SPANS_MAX - 1)]
  }

  #finish (): void {
    if (this.#finished || this.#end === null) return
    this.#finished = true
    this.#stopWaiting()
    const { how, atMs } = this.#end
    const taskId = this.#about?.taskId ?? how.taskId
    // The other node keeps it, or it never became a task.
    if (this.#handedOver || taskId === null) return
    this.#parts.finished(this.#record(taskId, how, atMs))
  }

  #record (taskId: string, { kind, reason }: TraceEnd, endMs: number): TraceRecord {
    const { nodeId: self, nameOf } = this.#parts
    const outcome = reason === null ? { outcome: kind } : { outcome: kind, reason }
    const zero = this.#wallMs * 1000
    const spans = this.#all(this.#root('request', endMs, outcome)).map((span) => ({
      place: span.place, name: span.name, category: span.category, steps: span.steps,
      startUs: Math.round(zero + (span.startMs - this.#beganMs) * 1000),
      durationUs: Math.max(0, micros(span.endMs - span.startMs)),
      attrs: span.attrs ?? {}
    }))
    return {
      taskId,
      commandId: this.#start.commandId,
      createdAt: new Date(this.#wallMs).toISOString(),
      modelId: this.#about?.modelId ?? '',
      taskKind: this.#about?.capability ?? this.#start.name,
      durationUs: micros(endMs - this.#beganMs),
      outcome: kind,
      reason,
      traceId: this.#traceId,
      spanId: this.#spanId,
      parentSpanId: this.#parentSpanId,
      places: this.#places.map(({ nodeId, process, rank }) => {
        const id = nodeId ?? self
        return { nodeId: id, name: nameOf(id), process, rank }
      }),
      clocks: this.#clocks.map(({ nodeId, process, offsetMs, uncertaintyMs }) => ({
        nodeId: nodeId ?? self, process, offsetUs: micros(offsetMs), uncertaintyUs: micros(uncertaintyMs)
      })),
      droppedSpans: this.#dropped + this.#recorder.dropped,
      spans
    }
  }
}

const micros = (ms: number): number => Math.round(ms * 1000)
