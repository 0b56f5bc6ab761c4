export interface SpaceLimits {
  /** Below this many free bytes nothing is written. */
  readonly floorBytes: number
  readonly headroomBytes: number
  readonly holdMs: number
}

/** Watches free space: when to stop writing, and when to begin again. */
export class SpaceGuard {
  readonly #limits: SpaceLimits
  #enoughSince: number | null = null

  constructor (limits: SpaceLimits) { this.#limits = limits }

  /** True when there is too little to write. Null bytes: nobody knows, which does not stop the writing. */
  tooLittle (freeBytes: number | null): boolean {
    return freeBytes !== null && freeBytes < this.#limits.floorBytes
  }

  /** The writing has stopped, or failed again: the time begins anew. */
  stopped (): void { this.#enoughSince = null }

  /** True when there has been enough for long enough. `now`: milliseconds that only rise. */
  mayBegin (freeBytes: number | null, now: number): boolean {
    const { floorBytes, headroomBytes, holdMs } = this.#limits
    if (freeBytes !== null && freeBytes < floorBytes + headroomBytes) {
      this.#enoughSince = null
      return false
    }
    this.#enoughSince ??= now
    return now - this.#enoughSince >= holdMs
  }
}
