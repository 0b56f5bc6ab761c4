/**
 * Maximum debt in ms; more is forgiven, so that a burst of many small frames does not silence a peer until it
 * counts as dead.
 */
export const MAX_DEFICIT_MS = 500

/**
 * A token bucket that refills at `perSecond` up to `burst` and starts full. Times are milliseconds on any
 * monotonic clock.
 */
export class TokenBucket {
  readonly #perSecond: number
  readonly #burst: number
  #level: number
  #at: number

  constructor (perSecond: number, burst: number, startMs: number) {
    this.#perSecond = perSecond
    this.#burst = burst
    this.#level = burst
    this.#at = startMs
  }

  /**
   * Takes `amount`, even if that leaves a debt, since received bytes cannot be sent back. Returns the
   * milliseconds to wait before taking more, at most MAX_DEFICIT_MS; 0 without a debt.
   */
  take (amount: number, nowMs: number): number {
    const passed = Math.max(0, nowMs - this.#at)
    this.#at = Math.max(this.#at, nowMs)
    const filled = Math.min(this.#burst, this.#level + passed * this.#perSecond / 1000)
    this.#level = Math.max(filled - amount, -this.#perSecond * MAX_DEFICIT_MS / 1000)
    return this.#level >= 0 ? 0 : Math.ceil(-this.#level * 1000 / this.#perSecond)
  }
}
