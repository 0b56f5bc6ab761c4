import type { FailureCode } from './errors.js'
import type { Clock, Logger } from '../../../kernel/index.js'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import type { RunnerStatus } from '../service.js'
import type { Files } from './confine.js'
import type { RunnerLimits } from './limits.js'

export interface RunnerOptions {
  readonly runnerId: string
  readonly instanceId: string
  readonly spec: ModelSpec
  readonly engineModule: string
  readonly clock: Clock
  readonly log: Logger
  /** Folder of this runner only: working directory, pidfile and output. Created if missing. */
  readonly scratch: string
  readonly files?: () => Files
  readonly network?: boolean
  readonly limits?: Partial<RunnerLimits>
  readonly memoryLimitBytes?: number
  /** Memory that placement counts for it, bytes. */
  readonly estimatedBytes?: number
  /** Concurrent tasks inside the runner. */
  readonly maxConcurrent?: number
  /** Tasks that may queue. */
  readonly maxQueued?: number
  /** Uniform in [0, 1). */
  readonly random?: () => number
  readonly output?: RunnerOutput | undefined
  /** CPU wait time of a process, ms; tests replace it. */
  readonly processorWaitMs?: (pid: number) => number
  onStatus (status: RunnerStatus): void
  /** The runner gave up; called at most once. */
  onFailed (failure: { errorMessage: string, errorCode: FailureCode, attempts: number }): void
}

/** Receives the output lines of a runner, except those dropped by the rate limit. */
export type RunnerOutput = (stream: 'stdout' | 'stderr', text: string) => void
