interface Sample { atMs: number, bytes: number }

/** Samples closer together than this are one. */
const GRAIN_MS = 100

/** Bytes per second over a sliding window of a count that only grows. Times are monotonic milliseconds. */
export class RateMeter {
  readonly #windowMs: number
  readonly #samples: Sample[] = []

  /** `windowMs`: how far back it looks, milliseconds. */
  constructor (windowMs = 10_000) {
    this.#windowMs = windowMs
  }

  /** Notes that `bytes` in all are there at `nowMs`. The first call sets the mark to count from. */
  add (bytes: number, nowMs: number): void {
    const samples = this.#samples
    const last = samples.at(-1)
    // The first one stays as it is: it is the mark that later ones are counted from.
    if (samples.length > 1 && last !== undefined && nowMs - last.atMs < GRAIN_MS) last.bytes = bytes
    else samples.push({ atMs: nowMs, bytes })
    this.#forget(nowMs)
  }

  /** Bytes per second in the window before `nowMs`; 0 when nothing came. */
  rate (nowMs: number): number {
    this.#forget(nowMs)
    const first = this.#samples[0]
    const last = this.#samples.at(-1)
    if (first === undefined || last === undefined || nowMs <= first.atMs) return 0
    return Math.max(0, (last.bytes - first.bytes) / (nowMs - first.atMs) * 1000)
  }

  /** Drops what lies before the window, but for the newest such sample: the count at its beginning. */
  #forget (nowMs: number): void {
    const start = nowMs - this.#windowMs
    while (this.#samples.length > 1 && this.#samples[1]!.atMs <= start) this.#samples.shift()
    const first = this.#samples[0]
    if (first !== undefined && first.atMs < start) first.atMs = start
  }
}
