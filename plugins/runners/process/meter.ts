/**
 * Counts events per second in fixed windows that start with their first event. Pure: time (monotonic
 * milliseconds) is an argument.
 */
export class RateMeter {
  readonly #perSecond: number
  #windowStart = -Infinity
  #count = 0

  constructor (perSecond: number) { this.#perSecond = perSecond }

  /** True when the next event would be beyond the rate. */
  full (nowMs: number): boolean {
    return nowMs - this.#windowStart < 1_000 && this.#count >= this.#perSecond
  }

  /** Notes one event; false when it is beyond the rate. */
  admit (nowMs: number): boolean {
    if (nowMs - this.#windowStart >= 1_000) {
      this.#windowStart = nowMs
      this.#count = 0
    }
    this.#count += 1
    return this.#count <= this.#perSecond
  }
}
