import type { Entry } from '../log/entries.js'

/** Indices from the first to the second, both inclusive. */
export type Range = readonly [from: number, to: number]

/** Indices from `from` to `to`, both inclusive, of which `count` were events; 0 when nobody counted. */
export interface Gap { readonly from: number, readonly to: number, readonly count: number }

/** Most ranges in a list; beyond this the two oldest become one. */
const RANGES_MAX = 1000

/** The ranges in order, those that touch or overlap as one. */
export function merged (list: readonly Range[]): Range[] {
  const result: [number, number][] = []
  for (const [from, to] of [...list].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1)
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to)
    else result.push([from, to])
  }
  const extra = result.length - RANGES_MAX
  if (extra > 0) result.splice(0, extra + 1, [result[0]![0], result[extra]![1]])
  return result
}

/** What of the ranges lies from `from` to `to`. */
export function within (list: readonly Range[], from: number, to: number): Range[] {
  return list.map(([a, b]): Range => [Math.max(a, from), Math.min(b, to)]).filter(([a, b]) => a <= b)
}

/** The range of a gap without its count. */
export const rangeOf = ({ from, to }: Gap): Range => [from, to]

/** What entries that follow index `tail` show to be missing: each names the one before it. */
export function skipped (entries: readonly Pick<Entry, 'prev' | 'idx'>[], tail: number): Gap[] {
  const gaps: Gap[] = []
  let last = tail
  for (const { prev, idx } of entries) {
    if (prev > last) gaps.push({ from: last + 1, to: prev, count: 0 })
    last = idx
  }
  return gaps
}

/** The gap from the first of these, which is there, to the last. */
export const asOne = (runs: readonly Gap[]): Gap => ({
  from: runs[0]!.from, to: runs.at(-1)!.to, count: runs.reduce((sum, { count }) => sum + count, 0)
})

/**
 * Events that were not written, oldest first. A run of consecutive indices is one element, so the count stays
 * exact though a new master leaves indices unused, and wherever the log is cut.
 */
export class Missed {
  #runs: Gap[] = []

  /** All of them as one gap; null when nothing is missing. */
  get gap (): Gap | null { return this.#runs.length === 0 ? null : asOne(this.#runs) }

  /** The event at this index, the newest of all, was not written. */
  add (idx: number): void {
    const last = this.#runs.at(-1)
    if (last?.to === idx - 1) this.#runs.splice(-1, 1, { from: last.from, to: idx, count: last.count + 1 })
    else this.#runs.push({ from: idx, to: idx, count: 1 })
  }

  /** These are missing too; they are newer. */
  join (later: readonly Gap[]): void { this.#runs.push(...later) }

  /** What lies behind `after` was taken out of the log. */
  cut (after: number): void { this.#clip(0, after) }

  /** Everything up to that index is on the disk after all. */
  found (upTo: number): void { this.#clip(upTo + 1, Infinity) }

  /** Empties it and returns what was in it. */
  take (): Gap[] { return this.#runs.splice(0) }

  #clip (least: number, most: number): void {
    this.#runs = this.#runs.filter(({ from, to }) => to >= least && from <= most).map((run) => {
      const [from, to] = [Math.max(run.from, least), Math.min(run.to, most)]
      return { from, to, count: Math.min(run.count, to - from + 1) }
    })
  }
}
