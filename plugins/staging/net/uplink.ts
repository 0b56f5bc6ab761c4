import { delay } from '../../../kernel/index.js'
import type { Clock } from '../../../kernel/index.js'

/**
 * The rate at which this node sends models to others, shared by all of them: whoever wants to send waits for
 * the time at which those before are through.
 */
export class Uplink {
  readonly #bytesPerSecond: number | null
  readonly #clock: Clock
  /** Monotonic ms at which what was granted so far is through. */
  #freeAt = 0
  /** Resolves when whoever came last has had its turn. */
  #last: Promise<void> = Promise.resolve()

  /** Null for no limit. */
  constructor (bytesPerSecond: number | null, clock: Clock) {
    this.#bytesPerSecond = bytesPerSecond
    this.#clock = clock
  }

  /** Resolves when so many bytes may go. Rejects with the signal's reason; then nothing was used up. */
  async take (bytes: number, signal: AbortSignal): Promise<void> {
    if (this.#bytesPerSecond === null) return
    const before = this.#last
    let pass = (): void => {}
    this.#last = new Promise((resolve) => { pass = resolve })
    try {
      await before
      signal.throwIfAborted()
      const wait = this.#freeAt - this.#clock.mono()
      if (wait > 0) await delay(this.#clock, wait, signal)
      const from = Math.max(this.#clock.mono(), this.#freeAt)
      this.#freeAt = from + bytes / this.#bytesPerSecond * 1000
    } finally {
      pass()
    }
  }
}
