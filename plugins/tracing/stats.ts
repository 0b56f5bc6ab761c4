import type { ShownSpan } from './trace-file.js'

/** Durations of one category's spans, in microseconds. */
export interface CategoryStats { totalUs: number, count: number, minUs: number, maxUs: number, avgUs: number }

type ByCategory = Record<string, CategoryStats>

export interface TraceStats {
  taskId: string
  totalWallTimeUs: number
  byCategory: ByCategory
  byRank: Record<string, { byCategory: ByCategory }>
}

/** Sums time and steps by category. The wall time is from the first start to the last end. Pure. */
export function statsOf (taskId: string, spans: readonly ShownSpan[]): TraceStats {
  const ranks = [...new Set(spans.map(({ rank }) => rank))].sort((a, b) => a - b)
  const first = spans.reduce((least, { startUs }) => Math.min(least, startUs), Infinity)
  const last = spans.reduce((most, { startUs, durationUs }) =>
    Math.max(most, startUs + durationUs), -Infinity)
  return {
    taskId,
    totalWallTimeUs: spans.length === 0 ? 0 : last - first,
    byCategory: categories(spans),
    byRank: Object.fromEntries(ranks.map((rank) =>
      [String(rank), { byCategory: categories(spans.filter((span) => span.rank === rank)) }]))
  }
}

export const stepsOf = ({ attrs }: Pick<ShownSpan, 'attrs'>): number => {
  const { steps } = attrs as { steps?: unknown }
  return Number.isSafeInteger(steps) && (steps as number) > 1 ? steps as number : 1
}

function categories (spans: readonly ShownSpan[]): ByCategory {
  const all = new Map<string, CategoryStats>()
  for (const span of spans) {
    const steps = stepsOf(span)
    const each = span.durationUs / steps
    const known = all.get(span.category) ?? { totalUs: 0, count: 0, minUs: Infinity, maxUs: 0, avgUs: 0 }
    all.set(span.category, {
      totalUs: known.totalUs + span.durationUs, count: known.count + steps,
      minUs: Math.min(known.minUs, each), maxUs: Math.max(known.maxUs, each), avgUs: 0
    })
  }
  return Object.fromEntries([...all].map(([category, { totalUs, count, minUs, maxUs }]) => [category, {
    totalUs, count, minUs: Math.round(minUs), maxUs: Math.round(maxUs), avgUs: Math.round(totalUs / count)
  }]))
}
