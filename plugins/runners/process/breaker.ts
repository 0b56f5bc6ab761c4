import { backoffMs } from '../../../kernel/index.js'
import type { RunnerLimits } from './limits.js'

type BreakerLimits = Pick<RunnerLimits,
  'backoffFirstMs' | 'backoffMaxMs' | 'backoffJitter' |
  'breakerFailures' | 'breakerWindowMs' | 'readyClearMs'>

/**
 * Earlier failures: their times (monotonic ms) within the window, how many in a row, and how many in a row
 * with a runner that never became ready.
 */
export interface BreakerState {
  readonly recent: readonly number[]
  readonly attempts: number
  readonly unready: number
}

export const CLOSED: BreakerState = { recent: [], attempts: 0, unready: 0 }

/** Maximum starts in a row that never become ready; slow loads fail too rarely to reach the rate limit. */
const UNREADY_MAX = 5

export interface Failure {
  readonly nowMs: number
  /** Milliseconds for which the runner was ready; 0 if it never was. */
  readonly readyMs: number
  /** True for a hang that a restart does not fix (warmup overrun), so there is no second attempt. */
  readonly wedged: boolean
}

export type Verdict = { readonly giveUp: true } | { readonly giveUp: false, readonly delayMs: number }

/**
 * Decides after a failure whether to restart or give up. The first failure after being ready restarts
 * immediately, later ones after a delay. Gives up on a hang, after `breakerFailures` failures within
 * `breakerWindowMs`, and after five starts in a row that never became ready; `readyClearMs` of being ready
 * clear the history. `random` is uniform in [0, 1).
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
  const first = state.attempts === 1 && failure.readyMs > 0
  const delayMs = first ? 0 : restartDelayMs(state.attempts, limits, random)
  return { state, verdict: { giveUp: false, delayMs } }
}

/** Milliseconds before a restart after `attempts` failures in a row: doubled, capped, plus jitter. */
export function restartDelayMs (attempts: number, limits: BreakerLimits, random: () => number): number {
  const { backoffFirstMs: minMs, backoffMaxMs: maxMs, backoffJitter } = limits
  return backoffMs(attempts, { minMs, maxMs }, 1) * (1 + backoffJitter * random())
}
