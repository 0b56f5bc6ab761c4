/** Facts of a span: short words and numbers; never a prompt, an answer or a secret. */
export type SpanAttrs = Readonly<Record<string, string | number | boolean>>

/** One kind of step that happens over and over. Times are milliseconds by the clock of its sink. */
export interface SpanSeries { add (startMs: number, endMs: number): void }

/** Where the work on one traced request is noted. */
export interface SpanSink {
  /** Monotonic milliseconds, by the clock in which spans are given. */
  now (): number
  span (name: string, category: string, startMs: number, endMs: number, attrs?: SpanAttrs): void
  /** For what happens very often, such as tokens. Ask for it once and keep it: `add` only stores numbers. */
  series (name: string, category: string): SpanSeries
}

/** A span as it was recorded; `steps` is how many steps of a series it stands for, 0 for a single span. */
export interface RecordedSpan {
  name: string
  category: string
  startMs: number
  endMs: number
  steps: number
  attrs: SpanAttrs | undefined
}

/** Bounds of one recorder: at most 2,048 + 4 x 128 spans. */
const SPANS_MAX = 2048
const SERIES_MAX = 4
const POINTS_MAX = 128
const POINTS_FIRST = 32

/**
 * Spans of one request in one process, bounded however long it runs: single spans beyond 2,048 are counted,
 * and the steps of a series are joined in pairs whenever there are 128 of them.
 */
export class SpanRecorder implements SpanSink {
  readonly #now: () => number
  readonly #spans: RecordedSpan[] = []
  readonly #series = new Map<string, Series>()
  #dropped = 0
  readonly #surplus: SpanSeries = { add: () => { this.#dropped++ } }

  constructor (now: () => number) { this.#now = now }

  /** Spans that found no room. */
  get dropped (): number { return this.#dropped }

  now (): number { return this.#now() }

  span (name: string, category: string, startMs: number, endMs: number, attrs?: SpanAttrs): void {
    if (this.#spans.length >= SPANS_MAX) this.#dropped++
    else this.#spans.push({ name, category, startMs, endMs, steps: 0, attrs })
  }

  series (name: string, category: string): SpanSeries {
    const known = this.#series.get(name)
    if (known !== undefined) return known
    if (this.#series.size >= SERIES_MAX) return this.#surplus
    const series = new Series(name, category)
    this.#series.set(name, series)
    return series
  }

  /** Everything recorded so far, in no order. */
  spans (): RecordedSpan[] {
    return [...this.#spans, ...[...this.#series.values()].flatMap((series) => series.spans())]
  }
}

/** The steps of one kind, as numbers. */
class Series implements SpanSeries {
  readonly #name: string
  readonly #category: string
  #starts = new Float64Array(POINTS_FIRST)
  #ends = new Float64Array(POINTS_FIRST)
  /** Points that are full. */
  #count = 0
  /** Steps in a full point, and in the one that is being filled. */
  #stride = 1
  #filled = 0

  constructor (name: string, category: string) {
    this.#name = name
    this.#category = category
  }

  add (startMs: number, endMs: number): void {
    if (this.#filled === 0) {
      if (this.#count === this.#starts.length) this.#makeRoom()
      this.#starts[this.#count] = startMs
    }
    this.#ends[this.#count] = endMs
    if (++this.#filled < this.#stride) return
    this.#filled = 0
    this.#count++
  }

  spans (): RecordedSpan[] {
    const points = this.#count + (this.#filled > 0 ? 1 : 0)
    return Array.from({ length: points }, (_, i) => ({
      name: this.#name,
      category: this.#category,
      startMs: this.#starts[i]!,
      endMs: this.#ends[i]!,
      steps: i < this.#count ? this.#stride : this.#filled,
      attrs: undefined
    }))
  }

  /** Twice the room, or half the points. */
  #makeRoom (): void {
    const length = this.#starts.length
    if (length < POINTS_MAX) {
      this.#starts = longer(this.#starts)
      this.#ends = longer(this.#ends)
      return
    }
    for (let i = 0; i < length / 2; i++) {
      this.#starts[i] = this.#starts[2 * i]!
      this.#ends[i] = this.#ends[2 * i + 1]!
    }
    this.#count = length / 2
    this.#stride *= 2
  }
}

function longer (numbers: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const twice = new Float64Array(numbers.length * 2)
  twice.set(numbers)
  return twice
}

/** A process whose spans are in a trace; `nodeId` is null for the node that reads it. */
export interface SpanPlace { nodeId: string | null, process: 'node' | 'runner', rank: number }

/** How far the clock of a place was from that of the reader, and how sure that is, milliseconds. */
export interface ClockNote {
  nodeId: string | null
  process: 'node' | 'runner'
  offsetMs: number
  uncertaintyMs: number
}

/** What a request became. */
export interface TaskAbout { taskId: string, modelId: string, capability: string }

/**
 * The spans of one process on their way to the one that asked for them. Times are milliseconds by the clock
 * of the sender; those of the spans are whole microseconds after `receivedMs`.
 */
export interface SpanPart {
  /** When the work came in and when this was made. */
  receivedMs: number
  sentMs: number
  places: SpanPlace[]
  kinds: [name: string, category: string][]
  /** Per span: place, kind, start, duration, steps. */
  spans: number[]
  /** By number of the span. */
  attrs: Record<string, SpanAttrs>
  clocks: ClockNote[]
  about: TaskAbout | null
  dropped: number
}

/** A span with the place where it was recorded. */
export interface PlacedSpan extends RecordedSpan { place: number }

/** What a part is made of. */
export interface PartOptions extends Omit<SpanPart, 'kinds' | 'spans' | 'attrs'> {
  spans: readonly PlacedSpan[]
}

const NUMBERS = 5
/** Most spans of a part; further ones are counted. */
export const PART_SPANS_MAX = 4096

const micros = (ms: number): number => Math.round(ms * 1000)

/** Packs spans for the way to another process. Pure. */
export function packPart ({ spans, ...head }: PartOptions): SpanPart {
  const kinds = new Map<string, number>()
  const part: SpanPart = {
    ...head, kinds: [], spans: [], attrs: {},
    dropped: head.dropped + Math.max(0, spans.length - PART_SPANS_MAX)
  }
  const count = Math.min(spans.length, PART_SPANS_MAX)
  for (let i = 0; i < count; i++) {
    const { place, name, category, startMs, endMs, steps, attrs } = spans[i]!
    const key = `${name}\n${category}`
    let kind = kinds.get(key)
    if (kind === undefined) {
      kinds.set(key, kind = kinds.size)
      part.kinds.push([name, category])
    }
    part.spans.push(place, kind, micros(startMs - head.receivedMs), micros(endMs - startMs), steps)
    if (attrs !== undefined) part.attrs[i] = attrs
  }
  return part
}

/** The part of a process with one recorder. */
export function partOf (
  recorder: SpanRecorder, process: SpanPlace['process'], receivedMs: number
): SpanPart {
  return packPart({
    receivedMs,
    sentMs: recorder.now(),
    places: [{ nodeId: null, process, rank: 0 }],
    spans: recorder.spans().map((span) => ({ ...span, place: 0 })),
    clocks: [],
    about: null,
    dropped: recorder.dropped
  })
}

/** The spans of a part again, by the clock of its sender. Pure. */
export function unpackSpans (part: SpanPart): PlacedSpan[] {
  const all: PlacedSpan[] = []
  for (let at = 0; at + NUMBERS <= part.spans.length; at += NUMBERS) {
    const [place, kind, start, duration, steps] = part.spans.slice(at, at + NUMBERS) as
      [number, number, number, number, number]
    const [name, category] = part.kinds[kind]!
    const startMs = part.receivedMs + start / 1000
    all.push({
      place, name, category, startMs, endMs: startMs + duration / 1000, steps,
      attrs: part.attrs[at / NUMBERS]
    })
  }
  return all
}
