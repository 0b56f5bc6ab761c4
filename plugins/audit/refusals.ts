/** Maximum refusals recorded per caller per hour; all requests without a credential count as one caller. */
export const REFUSALS_AN_HOUR = 10
const HOUR_MS = 3_600_000
/** Maximum number of callers counted at once; each has a token or a grant from this cluster. */
const CALLERS = 1000

export class Refusals {
  readonly #seen = new Map<string, { recorded: number[], left: number }>()

  /**
   * Returns how many refusals were left out of the record before this one; null if this one is left out too.
   * `nowMs` is monotonic.
   */
  admit (who: string, nowMs: number): number | null {
    const known = this.#seen.get(who) ?? { recorded: [], left: 0 }
    if (!this.#seen.has(who) && this.#seen.size >= CALLERS) this.#seen.delete(this.#seen.keys().next().value!)
    this.#seen.set(who, known)
    known.recorded = known.recorded.filter((at) => nowMs - at < HOUR_MS)
    if (known.recorded.length >= REFUSALS_AN_HOUR) {
      known.left++
      return null
    }
    const { left } = known
    known.recorded.push(nowMs)
    known.left = 0
    return left
  }
}
