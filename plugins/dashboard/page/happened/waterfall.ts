// A trace as lanes: spans of one kind on the same node share a lane, ordered by start time.
import type { Replies } from '../../../../docs/reference/replies.js'

export type Span = Replies['GET /v1/traces/cluster/{id}']['traces'][number]

export interface Bar { left: number, width: number, span: Span, spans: number }

export interface Lane {
  key: string, name: string, category: string, nodeId: string, rank: number
  count: number, totalUs: number
  bars: Bar[]
}

export interface Waterfall { startUs: number, durationUs: number, lanes: Lane[] }

/** Bars closer together than this fraction of the trace are merged, so thousands of tokens form one bar. */
const APART = 0.001

/** Arranges a trace's spans in lanes. `left` and `width` are fractions of the trace's duration. */
export function waterfallOf (spans: readonly Span[]): Waterfall {
  if (spans.length === 0) return { startUs: 0, durationUs: 0, lanes: [] }
  const ordered = [...spans].sort((a, b) => a.startUs - b.startUs || b.durationUs - a.durationUs)
  const startUs = ordered[0]!.startUs
  const durationUs = Math.max(1, ...ordered.map((span) => span.startUs + span.durationUs - startUs))
  const lanes = new Map<string, Lane>()
  for (const span of ordered) {
    const { name, category, nodeId, rank } = span
    const key = JSON.stringify([nodeId, rank, category, name])
    let lane = lanes.get(key)
    if (lane === undefined) {
      lanes.set(key, lane = { key, name, category, nodeId, rank, count: 0, totalUs: 0, bars: [] })
    }
    lane.count++
    lane.totalUs += span.durationUs
    addBar(lane.bars, {
      span, spans: 1, left: (span.startUs - startUs) / durationUs, width: span.durationUs / durationUs
    })
  }
  return { startUs, durationUs, lanes: [...lanes.values()] }
}

function addBar (bars: Bar[], bar: Bar): void {
  const last = bars.at(-1)
  if (last === undefined || bar.left - (last.left + last.width) >= APART) {
    bars.push(bar)
    return
  }
  last.width = Math.max(last.left + last.width, bar.left + bar.width) - last.left
  last.spans++
}

const STEPS = [1, 2, 5]

/** Axis ticks at round times, in microseconds from the start; at most `most`, starting at 0. */
export function ticksOf (durationUs: number, most = 6): number[] {
  if (durationUs <= 0) return [0]
  for (let unit = 1; ; unit *= 10) {
    const step = STEPS.map((one) => one * unit).find((one) => durationUs / one < most)
    if (step === undefined) continue
    return Array.from({ length: Math.floor(durationUs / step) + 1 }, (_, i) => i * step)
  }
}
