import type { ShownSpan } from './trace-file.js'

export type TraceStats = ReturnType<typeof statsOf>

/** Sums time and steps by category. The wall time is from the first start to the last end. Pure. */
export function statsOf (taskId: string, spans: readonly ShownSpan[]) {
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

/** By category the total, shortest, longest and mean duration of a step in microseconds. */
function categories (spans: readonly ShownSpan[]) {
  return Object.fromEntries([...new Set(spans.map(({ category }) => category))].map((category) => {
    const own = spans.filter((span) => span.category === category)
    const totalUs = own.reduce((sum, { durationUs }) => sum + durationUs, 0)
    const count = own.reduce((sum, span) => sum + stepsOf(span), 0)
    const each = own.map((span) => Math.round(span.durationUs / stepsOf(span)))
    const avgUs = Math.round(totalUs / count)
    return [category, { totalUs, count, minUs: Math.min(...each), maxUs: Math.max(...each), avgUs }]
  }))
}
