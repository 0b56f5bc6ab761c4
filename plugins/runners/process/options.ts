import type { FailureCode } from './errors.js'
import type { Clock, Logger } from '../../../kernel/index.js'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import type { RunnerStatus } from '../service.js'
import type { Files } from './confine.js'
import type { RunnerLimits } from './limits.js'
import type { Network } from './sandbox.js'

export interface RunnerOptions {
  readonly runnerId: string
  readonly instanceId: string
  readonly spec: ModelSpec
  readonly engineModule: string
  readonly clock: Clock
  readonly log: Logger
  /** Folder only for this runner: working directory, pidfile and output. Created if missing. */
  readonly scratch: string
  readonly files?: () => Files
  readonly network?: Network
  readonly limits?: Partial<RunnerLimits>
  readonly memoryLimitBytes?: number
  /** Bytes of memory that placement counts for the runner. */
  readonly estimatedBytes?: number
  /** Limit on concurrent tasks inside the runner; any beyond it are queued. */
  readonly maxConcurrent?: number
  /** Limit on queued tasks; any beyond it are refused as `overloaded`. */
  readonly maxQueued?: number
  /** Returns a random number, uniform in [0, 1). */
  readonly random?: () => number
  readonly output?: RunnerOutput | undefined
  /** Milliseconds that a process waited for a CPU; tests replace it. */
  readonly processorWaitMs?: (pid: number) => number
  onStatus (status: RunnerStatus): void
  /** Called at most once, when the runner gives up. */
  onFailed (failure: { errorMessage: string, errorCode: FailureCode, attempts: number }): void
}

/** Receives a runner's output lines, except those dropped by the rate limit. */
export type RunnerOutput = (stream: 'stdout' | 'stderr', text: string) => void
