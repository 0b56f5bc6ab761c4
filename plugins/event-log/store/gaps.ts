/** A range of indices, both ends inclusive. */
export type Range = readonly [from: number, to: number]

/** A range of indices, both ends inclusive, and the number of events in it; 0 if it is unknown. */
export interface Gap { readonly from: number, readonly to: number, readonly count: number }

/** Maximum ranges in a list; beyond it, the oldest are merged into one. */
const RANGES_MAX = 1000

/** Sorts ranges and merges those that touch or overlap. */
export function merged (list: readonly Range[]): Range[] {
  const result: [number, number][] = []
  for (const [from, to] of [...list].sort((a, b) => a[0] - b[0])) {
    if (from > to) continue
    const last = result.at(-1)
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to)
    else result.push([from, to])
  }
  const extra = result.length - RANGES_MAX
  if (extra > 0) result.splice(0, extra + 1, [result[0]![0], result[extra]![1]])
  return result
}

/** The parts of the ranges from `from` to `to`. */
export function within (list: readonly Range[], from: number, to: number): Range[] {
  return list.map(([a, b]): Range => [Math.max(a, from), Math.min(b, to)]).filter(([a, b]) => a <= b)
}

/** The indices missing after `tail`, before and between these entries; each entry names the previous one. */
export function skipped (entries: readonly { prev: number, idx: number }[], tail: number): Range[] {
  const before = (i: number): number => entries[i - 1]?.idx ?? tail
  return entries.map(({ prev }, i): Range => [before(i) + 1, prev]).filter(([from, to]) => from <= to)
}

/** Unwritten events not reported yet, as runs of indices, so that counts stay exact across cuts. */
export class PendingGaps {
  #runs: Gap[] = []

  get ranges (): Range[] { return this.#runs.map(({ from, to }) => [from, to]) }

  get gap (): Gap | null {
    if (this.#runs.length === 0) return null
    return {
      from: Math.min(...this.#runs.map(({ from }) => from)),
      to: Math.max(...this.#runs.map(({ to }) => to)),
      count: this.#runs.reduce((sum, { count }) => sum + count, 0)
    }
  }

  add (from: number, to = from, count = to - from + 1): void {
    const last = this.#runs.at(-1)
    const continues = last !== undefined && last.to === from - 1
    if (continues) this.#runs.splice(-1, 1, { from: last.from, to, count: last.count + count })
    else this.#runs.push({ from, to, count })
  }

  /** Forgets events after index `after`, because the log was cut there. */
  cut (after: number): void { this.#keep(0, after) }

  /** Forgets events up to that index, because they turned out to be on disk. */
  found (upTo: number): void { this.#keep(upTo + 1, Infinity) }

  /** Removes the runs that begin up to this index and returns them as one gap, or null. */
  take (upTo: number): Gap | null {
    const taken = new PendingGaps()
    taken.#runs = this.#runs.filter(({ from }) => from <= upTo)
    this.#runs = this.#runs.filter(({ from }) => from > upTo)
    return taken.gap
  }

  #keep (least: number, most: number): void {
    this.#runs = this.#runs.filter(({ from, to }) => to >= least && from <= most).map((run) => {
      const [from, to] = [Math.max(run.from, least), Math.min(run.to, most)]
      return { from, to, count: Math.min(run.count, to - from + 1) }
    })
  }
}
