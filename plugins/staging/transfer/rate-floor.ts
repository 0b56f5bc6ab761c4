/**
 * Tells whether a source delivers less than a floor, averaged over a window. Time is the caller's: with the
 * time spent waiting for the source, a slow disk on this side is not held against it.
 */
export class RateFloor {
  readonly #bytesPerSecond: number
  readonly #windowMs: number
  #since = 0
  #bytes = 0

  constructor (bytesPerSecond: number, windowMs: number) {
    this.#bytesPerSecond = bytesPerSecond
    this.#windowMs = windowMs
  }

  /** Counts bytes that came in. */
  add (bytes: number): void { this.#bytes += bytes }

  /** Whether the window that ends at `waitedMs` was below the floor; each full window begins a new one. */
  below (waitedMs: number): boolean {
    const elapsed = waitedMs - this.#since
    if (elapsed < this.#windowMs) return false
    const slow = this.#bytes * 1000 < this.#bytesPerSecond * elapsed
    this.#since = waitedMs
    this.#bytes = 0
    return slow
  }
}
