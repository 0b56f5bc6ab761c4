/**
 * Records the spans of one request in one process. Runner processes import this file, so it must not import
 * the kernel at run time. An OpenTelemetry span costs forty times as much, so otlp.ts uses the OpenTelemetry
 * SDK only for export.
 */
import type { OpenSpan, SpanAttrs, SpanSeries, SpanSink } from '../../../kernel/api/engine.js'

export interface RecordedSpan {
  /** Unique within one recorder. */
  id: number
  /** Id of the parent span; null for the first span of a trace. */
  parent: number | null
  name: string
  category: string
  startMs: number
  endMs: number
  /** Number of steps that a point of a series combines; 0 for a single span. */
  steps: number
  attrs?: SpanAttrs | undefined
}

/** `place` is the index of the span's process among the places of its trace. */
export interface PlacedSpan extends RecordedSpan { place: number }

export const ROOT = 0
/** Limit on the spans of a part or a trace; spans beyond it are only counted. */
export const SPANS_MAX = 4096
/** Limits of one recorder: at most 2,048 + 4 x 128 spans. */
const SINGLE_MAX = 2048
const SERIES_MAX = 4
const POINTS_MAX = 128

export class SpanRecorder implements SpanSink {
  readonly #now: () => number
  readonly #spans: RecordedSpan[] = []
  readonly #series = new Map<string, Series>()
  #lastId = ROOT
  #dropped = 0
  readonly #surplus: SpanSeries = { add: () => { this.#dropped++ } }

  constructor (now: () => number) { this.#now = now }

  get dropped (): number { return this.#dropped }

  now (): number { return this.#now() }

  span (name: string, category: string, startMs: number, endMs: number, attrs?: SpanAttrs): void {
    this.record(ROOT, name, category, startMs, endMs, attrs)
  }

  series (name: string, category: string): SpanSeries { return this.seriesOf(ROOT, name, category) }

  /** Opens a span below `parent`; further spans can be recorded below it. */
  open (name: string, category: string, startMs = this.#now(), parent = ROOT): OpenSpan & { id: number } {
    const span = this.record(parent, name, category, startMs, Number.NaN)
    const { id } = span
    return {
      id, now: () => this.now(), span: (...about) => { this.record(id, ...about) },
      series: (...about) => this.seriesOf(id, ...about),
      open: (childName, childCategory, childStartMs) => this.open(childName, childCategory, childStartMs, id),
      end: (attrs, endMs = this.now()) => { Object.assign(span, { attrs, endMs }) }
    }
  }

  /** Records a span below `parent`. The returned span is not stored if the recorder is full. */
  record (
    parent: number, name: string, category: string, startMs: number, endMs: number, attrs?: SpanAttrs
  ): RecordedSpan {
    const span = { id: ++this.#lastId, parent, name, category, startMs, endMs, steps: 0, attrs }
    if (this.#spans.length >= SINGLE_MAX) this.#dropped++
    else this.#spans.push(span)
    return span
  }

  seriesOf (parent: number, name: string, category: string): SpanSeries {
    const key = `${parent} ${name}`
    const known = this.#series.get(key)
    if (known !== undefined) return known
    if (this.#series.size >= SERIES_MAX) return this.#surplus
    const series = new Series(parent, name, category)
    this.#series.set(key, series)
    return series
  }

  newId (): number { return ++this.#lastId }

  /** All spans so far, unordered. Open spans are returned as ending now. */
  spans (): RecordedSpan[] {
    const now = this.#now()
    const singles = this.#spans.map((span) => Number.isNaN(span.endMs) ? { ...span, endMs: now } : span)
    const steps = [...this.#series.values()].map((series) => series.spans(() => this.newId()))
    return singles.concat(...steps)
  }
}

class Series implements SpanSeries {
  readonly #parent: number
  readonly #name: string
  readonly #category: string
  readonly #starts = new Float64Array(POINTS_MAX)
  readonly #ends = new Float64Array(POINTS_MAX)
  #count = 0
  /** Number of steps that a full point combines, and number of steps in the point being filled. */
  #stride = 1
  #filled = 0

  constructor (parent: number, name: string, category: string) {
    this.#parent = parent
    this.#name = name
    this.#category = category
  }

  add (startMs: number, endMs: number): void {
    if (this.#filled === 0) {
      if (this.#count === POINTS_MAX) this.#compact()
      this.#starts[this.#count] = startMs
    }
    this.#ends[this.#count] = endMs
    if (++this.#filled < this.#stride) return
    this.#filled = 0
    this.#count++
  }

  spans (newId: () => number): RecordedSpan[] {
    const points = this.#count + (this.#filled > 0 ? 1 : 0)
    return Array.from({ length: points }, (_, i) => ({
      id: newId(), parent: this.#parent, name: this.#name, category: this.#category,
      startMs: this.#starts[i]!, endMs: this.#ends[i]!,
      steps: i < this.#count ? this.#stride : this.#filled, attrs: undefined
    }))
  }

  /** Makes space for more points: joins them in pairs. */
  #compact (): void {
    this.#count = POINTS_MAX / 2
    for (let i = 0; i < this.#count; i++) {
      this.#starts[i] = this.#starts[2 * i]!
      this.#ends[i] = this.#ends[2 * i + 1]!
    }
    this.#stride *= 2
  }
}

const micros = (ms: number): number => Math.round(ms * 1000)

/** A span for another process, with times in whole microseconds since the work arrived at `receivedMs`. */
export const toSentSpan = (span: RecordedSpan, place: number, receivedMs: number) => ({
  id: span.id, parent: span.parent, place, name: span.name, category: span.category,
  startUs: micros(span.startMs - receivedMs), durationUs: micros(span.endMs - span.startMs),
  steps: span.steps, attrs: span.attrs
})

/** One process's part of a trace, in the form that the tracing plugin reads. */
export const partOf = (recorder: SpanRecorder, process: 'node' | 'runner', receivedMs: number) => ({
  receivedMs, sentMs: recorder.now(), places: [{ nodeId: null, process, rank: 0 }],
  spans: recorder.spans().map((span) => toSentSpan(span, 0, receivedMs)), clocks: [], about: null,
  dropped: recorder.dropped
})
