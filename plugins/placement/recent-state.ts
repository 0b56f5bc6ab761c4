import type { Clock } from '../../kernel/index.js'
import type { ReadState, StateView } from './state-view.js'

/** Readings change without a sign: what was read is good for so long at most, ms. */
export const RECENT_MS = 2000

/** The state for all that wait for something: read once for all of them, and only after a change. */
export class RecentState {
  readonly #read: ReadState
  readonly #clock: Pick<Clock, 'mono'>
  #last: Promise<StateView> | null = null
  #at = -Infinity

  constructor (read: ReadState, clock: Pick<Clock, 'mono'>) {
    this.#read = read
    this.#clock = clock
  }

  /** Something changed: whoever asks next gets what is there then. */
  changed (): void { this.#last = null }

  /** The state, not older than the last change. Throws what reading it throws. */
  readonly read: ReadState = async () => {
    const now = this.#clock.mono()
    if (this.#last === null || now - this.#at >= RECENT_MS) {
      this.#at = now
      this.#last = this.#read()
    }
    const asked = this.#last
    try {
      return await asked
    } catch (error) {
      if (this.#last === asked) this.#last = null
      throw error
    }
  }
}
