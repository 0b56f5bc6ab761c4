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
  /** file: URL of the engine module. */
  readonly engineModule: string
  readonly clock: Clock
  readonly log: Logger
  /** Folder of this runner alone: its working directory, pidfile and output. Made when missing. */
  readonly scratch: string
  /** The files of its sandbox; without them it has none. */
  readonly files?: () => Files
  /** The runner needs the network of the node. */
  readonly network?: boolean
  readonly limits?: Partial<RunnerLimits>
  readonly memoryLimitBytes?: number
  /** Memory that placement counts for it. */
  readonly estimatedBytes?: number
  /** Tasks inside the runner at once. */
  readonly maxConcurrent?: number
  /** Tasks that may wait for a place. */
  readonly maxQueued?: number
  /** Uniform in [0, 1). */
  readonly random?: () => number
  /** Receives what the process writes to stdout and stderr. */
  readonly output?: RunnerOutput | undefined
  /** How long a process has waited for a processor, ms; replaced by tests. */
  readonly processorWaitMs?: (pid: number) => number
  onStatus (status: RunnerStatus): void
  /** The runner is given up; called at most once. */
  onFailed (failure: { errorMessage: string, errorCode: FailureCode, attempts: number }): void
}

/** Receives the lines a runner writes, except those dropped by the rate limit. */
export type RunnerOutput = (stream: 'stdout' | 'stderr', text: string) => void
