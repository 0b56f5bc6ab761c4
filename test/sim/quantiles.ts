export interface Quantiles {
  readonly n: number
  readonly p50: number
  readonly p95: number
  readonly max: number
}

/** Median, 95th percentile and maximum of durations in whole ms; 0 for an empty list. */
export function quantiles (durations: readonly number[]): Quantiles {
  const sorted = [...durations].sort((a, b) => a - b)
  const at = (q: number): number => {
    const i = Math.min(sorted.length - 1, Math.floor(sorted.length * q))
    return Math.round(sorted[i] ?? 0)
  }
  return { n: sorted.length, p50: at(0.5), p95: at(0.95), max: at(1) }
}
