import type { RunnerLimits } from './limits.js'

type BreakerLimits = Pick<RunnerLimits,
  'backoffFirstMs' | 'backoffMaxMs' | 'backoffJitter' |
  'breakerFailures' | 'breakerWindowMs' | 'readyClearMs'>

/**
 * Failures so far: their times (monotonic ms) inside the window, how many in a row, and how many of the last
 * came before it was ready.
 */
export interface BreakerState {
  readonly recent: readonly number[]
  readonly attempts: number
  readonly unready: number
}

export const CLOSED: BreakerState = { recent: [], attempts: 0, unready: 0 }

/** What takes long to load and dies each time is never there thrice within the window. */
const UNREADY_MAX = 5

/** One end of a runner process that nobody asked for. */
export interface Failure {
  readonly nowMs: number
  /** How long it had been ready; 0 when it never was. */
  readonly readyMs: number
  /** It hung in a way a restart does not mend (a warmup overrun): no second try. */
  readonly wedged: boolean
}

export type Verdict = { readonly giveUp: true } | { readonly giveUp: false, readonly delayMs: number }

/**
 * Decides after a failure: start again, at once where it was ready and has not failed before, else after a
 * delay; or give up. Gives up on a wedge, on
 * `breakerFailures` failures within `breakerWindowMs`, and after five starts in a row of which none came to
 * be ready; being ready for `readyClearMs` forgets the past. `random` is uniform in [0, 1).
 */
export function afterFailure (
  before: BreakerState, failure: Failure, limits: BreakerLimits, random: () => number
): { state: BreakerState, verdict: Verdict } {
  const past = failure.readyMs >= limits.readyClearMs ? CLOSED : before
  const recent = [...past.recent.filter((at) => failure.nowMs - at < limits.breakerWindowMs), failure.nowMs]
  const unready = failure.readyMs > 0 ? 0 : past.unready + 1
  const state = { recent, attempts: past.attempts + 1, unready }
  const often = recent.length >= limits.breakerFailures || unready >= UNREADY_MAX
  if (failure.wedged || often) return { state, verdict: { giveUp: true } }
  // What has served may serve at once: a pause is for what fails again, or never came to be ready.
  const first = state.attempts === 1 && failure.readyMs > 0
  return { state, verdict: { giveUp: false, delayMs: first ? 0 : backoffMs(state.attempts, limits, random) } }
}

/** Wait before the try after `attempts` failures in a row: doubling, capped, with jitter on top. */
export function backoffMs (attempts: number, limits: BreakerLimits, random: () => number): number {
  const doubled = limits.backoffFirstMs * 2 ** Math.min(attempts - 1, 30)
  return Math.min(doubled, limits.backoffMaxMs) * (1 + limits.backoffJitter * random())
}
