import type { TraceRecord } from './recording.js'

/** Trace ids name files, so they may only have characters that cannot leave a folder. */
export const TRACE_ID = /^[0-9A-Za-z][0-9A-Za-z-]{0,63}$/

export type TraceSpan = TraceRecord['spans'][number]

/** Facts about a trace, without its spans. */
export type TraceHead = Omit<TraceRecord, 'spans'>

/** A span in GET /v1/traces/{id}. */
export type ShownSpan = ReturnType<typeof readSpans>[number]

interface ChromeEvent {
  ph: string
  name: string
  pid: number
  tid: number
  cat?: string
  ts?: number
  dur?: number
  /** The span's number in its trace and that of its parent; svc's addition to Chrome's format. */
  span?: number
  parent?: number | null
  args?: Record<string, unknown>
}

/** Chrome's format has processes instead of places; their ids start at 1. */
const pidOf = (place: number): number => place + 1

/** Assigns lanes of one place and category without overlaps. Expects spans sorted by start. Pure. */
export function lanes (spans: readonly TraceSpan[]): number[] {
  const open: { key: string, freeUs: number }[] = []
  return spans.map(({ place, category, startUs, durationUs }) => {
    const key = `${place} ${category}`
    const found = open.findIndex((lane) => lane.key === key && lane.freeUs <= startUs)
    const lane = found < 0 ? open.push({ key, freeUs: 0 }) - 1 : found
    open[lane]!.freeUs = startUs + durationUs
    return lane
  })
}

/** Formats a trace as Chrome trace JSON, with its head alone on the first line, for listings. Pure. */
export function chromeText (record: TraceRecord): string {
  const { spans, ...head } = record
  const tids = lanes(spans)
  const names = new Map(spans.map((span, i) =>
    [tids[i]!, named('thread_name', span.place, tids[i]!, span.category)]))
  const events = [
    ...record.places.map((place, i) => named('process_name', i, 0, titleOf(place))),
    ...names.values(),
    ...spans.map((span, i): ChromeEvent => ({
      ph: 'X', name: span.name, cat: span.category, pid: pidOf(span.place), tid: tids[i]!,
      ts: span.startUs, dur: span.durationUs, span: span.id, parent: span.parent,
      args: span.steps > 1 ? { ...span.attrs, steps: span.steps } : span.attrs
    }))
  ].map((event) => JSON.stringify(event))
  const unit = '"displayTimeUnit":"ms"'
  return `${FIRST}${JSON.stringify(head)},\n${unit},\n"traceEvents":[\n${events.join(',\n')}\n]}\n`
}

const FIRST = '{"otherData":'

const titleOf = ({ process, name, nodeId }: TraceRecord['places'][number]): string =>
  process === 'runner' ? `runner on ${name}` : `node ${name} (${nodeId})`

const named = (what: string, place: number, tid: number, name: string): ChromeEvent =>
  ({ ph: 'M', name: what, pid: pidOf(place), tid, args: { name } })

/** The head of a trace file; null for any other file. Pure. */
export function readHead (text: string): TraceHead | null {
  const end = text.indexOf(',\n')
  if (!text.startsWith(FIRST) || end < 0) return null
  try {
    const head = JSON.parse(text.slice(FIRST.length, end)) as Partial<TraceHead>
    const texts = [head.taskId, head.commandId, head.createdAt, head.modelId, head.taskKind]
    const fine = texts.every((value) => typeof value === 'string') && Array.isArray(head.places)
    return fine ? head as TraceHead : null
  } catch {
    return null
  }
}

/** The spans in a file. Throws SyntaxError or TypeError if it is damaged. Pure. */
export function readSpans (text: string) {
  const { otherData: { places }, traceEvents } =
    JSON.parse(text) as { otherData: TraceHead, traceEvents: ChromeEvent[] }
  return traceEvents.filter(({ ph }) => ph === 'X').map(({ name, cat, ts, dur, pid, args }) => {
    const place = places[pid - 1]
    return {
      name, startUs: ts!, durationUs: dur!,
      /** Rank of the shard whose runner recorded the span; 0 if a node recorded it. */
      rank: place?.rank ?? 0,
      category: cat!, nodeId: place?.nodeId ?? '', attrs: args as Record<string, string | number | boolean>
    }
  })
}
