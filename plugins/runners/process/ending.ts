import { endedByWarmupWatchdog, warmupMessage } from './deadlines.js'
import type { Phase } from './deadlines.js'
import type { RunnerLimits } from './limits.js'
import type { Ended } from './process-options.js'

/** What is known of a process when it has ended. Times are monotonic milliseconds. */
export interface Ending {
  /** The end was asked for. */
  readonly stopping: boolean
  /** Why the node killed it, if it did. */
  readonly failure: { readonly message: string, readonly wedged: boolean } | null
  readonly phase: Phase
  readonly since: number
  readonly readyAt: number | null
  readonly exit: { readonly code: number | null, readonly signal: string | null } | null
}

/** How the end of a runner process is reported: as asked for, by the node's reason, or by its own exit. */
export function describeEnd (ending: Ending, limits: RunnerLimits, nowMs: number): Ended {
  const { code, signal } = ending.exit ?? { code: null, signal: null }
  const ended = { exitCode: code, readyMs: ending.readyAt === null ? 0 : nowMs - ending.readyAt }
  if (ending.stopping) return { ...ended, message: null, wedged: false }
  if (ending.failure !== null) return { ...ended, ...ending.failure }
  if (endedByWarmupWatchdog(ending, signal, limits, nowMs)) {
    return { ...ended, message: warmupMessage(limits), wedged: true }
  }
  const cause = signal === null ? `exited with code ${code}` : `was ended by ${signal}`
  return { ...ended, message: `the runner process ${cause} while ${ending.phase}`, wedged: false }
}
