import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../api/clock.js'

/** How a verb that waits sees time; tests pass their own. */
export interface Pace {
  /** Resolves after `ms`, earlier when the signal aborts. Keeps the process alive meanwhile. */
  pause (ms: number, signal: AbortSignal): Promise<void>
  /** Monotonic milliseconds. */
  mono (): number
}

/** The time of the machine. */
export const realPace: Pace = {
  // The clock's own timers would let the process end in the middle of a wait.
  pause: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
  mono: systemClock.mono
}
