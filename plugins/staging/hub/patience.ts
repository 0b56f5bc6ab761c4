import { delay } from '../../../kernel/index.js'
import type { Clock } from '../../../kernel/index.js'
import { HubError } from './errors.js'

/** A hub that asks for a longer pause than this, ms, is waited for without a place in any queue. */
export const LONG_WAIT_MS = 30_000
/** So many such pauses in a row are waited for. */
const MOST_WAITS = 5

/**
 * Runs `turn`, which takes its turn in a queue, again after each long pause that the hub asks for. Throws
 * what it throws, the last time when there were too many, and the signal's reason.
 */
export async function inTurn<T> (clock: Clock, signal: AbortSignal, turn: () => Promise<T>): Promise<T> {
  for (let waits = 0; ; waits++) {
    try {
      return await turn()
    } catch (error) {
      const waitMs = error instanceof HubError ? error.retryAfterMs ?? 0 : 0
      if (waitMs <= LONG_WAIT_MS || waits >= MOST_WAITS) throw error
      await delay(clock, waitMs, signal)
    }
  }
}
