import { loadingMs } from './work.js'
import type { RunnerLimits } from './limits.js'
import type { Overdue } from './work.js'

/** Where a runner process is in its life, as deadlines see it. */
export type Phase = 'connecting' | 'loading' | 'warmup' | 'serving'

/** What the node knows of a runner at one moment. Times are monotonic milliseconds. */
export interface Watch {
  readonly phase: Phase
  /** Start of the phase; while loading, of the last progress. */
  readonly since: number
  readonly modelBytes: number
  readonly overdueWork: Overdue | null
  /** Oldest task that was cancelled and has not ended in the runner. */
  readonly cancelledSince: number | null
  /** Since when the runner has had no announced work; now while it has. */
  readonly quietSince: number
}

/** A passed deadline. `key` is the same for the same cause, so that two looks can agree on it. */
export interface Passed { readonly key: string, readonly message: string, readonly wedged: boolean }

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`

/** The deadline a runner has passed, if any. */
export function passedDeadline (watch: Watch, limits: RunnerLimits, nowMs: number): Passed | null {
  const elapsed = nowMs - watch.since
  switch (watch.phase) {
    case 'connecting': return elapsed <= limits.firstReportMs
      ? null
      : passed('first report', `the runner did not report within ${seconds(limits.firstReportMs)}`)
    case 'loading': {
      const allowed = loadingMs(watch.modelBytes, limits)
      return elapsed <= allowed
        ? null
        : passed('loading', `loading ${watch.modelBytes} bytes made no progress for ${seconds(allowed)}`)
    }
    case 'warmup': return elapsed <= limits.warmupMs + limits.warmupGraceMs
      ? null
      : { ...passed('warmup', warmupMessage(limits)), wedged: true }
    case 'serving': return servingDeadline(watch, limits, nowMs)
  }
}

function servingDeadline (watch: Watch, limits: RunnerLimits, nowMs: number): Passed | null {
  const work = watch.overdueWork
  if (work !== null) {
    return passed(`work ${work.id}`, `work "${work.label}" of ${work.units} units has been running for ` +
      `${seconds(work.runningMs)}, allowed are ${seconds(work.allowedMs)}`)
  }
  // Announced work has its own time: what a cancelled task waits for is over when that is.
  const { cancelledSince, quietSince } = watch
  if (cancelledSince !== null && nowMs - Math.max(cancelledSince, quietSince) > limits.cancelMs) {
    return passed('cancel', `a cancelled task was still running ${seconds(limits.cancelMs)} later, ` +
      'without announced work')
  }
  return null
}

const passed = (key: string, message: string): Passed => ({ key, message, wedged: false })

/** What a warmup overrun is called wherever it is reported. */
export function warmupMessage (limits: Pick<RunnerLimits, 'warmupMs'>): string {
  return `warmup did not finish within ${seconds(limits.warmupMs)}; ` +
    'SVC_WARMUP_DEADLINE_SECONDS sets the deadline'
}

/**
 * True when a process that ended by SIGKILL during its warmup was ended by its own watchdog: the node's
 * clock starts a little later than the runner's, so most of the deadline counts as all of it.
 */
export function endedByWarmupWatchdog (
  watch: Pick<Watch, 'phase' | 'since'>, signal: string | null, limits: RunnerLimits, nowMs: number
): boolean {
  return watch.phase === 'warmup' && signal === 'SIGKILL' && nowMs - watch.since >= 0.9 * limits.warmupMs
}
