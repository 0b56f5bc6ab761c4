import type { Clock, Logger, Trace } from '../../../kernel/index.js'
import type { EngineChunk, EngineTask, ModelSpec } from '../../../kernel/api/engine.js'
import type { RunnerCancel, RunnerReport, RunnerStatus } from '../service.js'
import type { RunnerLimits } from './limits.js'

/** What a supervisor is made from. */
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
  /**
   * Lists the files it may read; called where the system can confine it to them. Left out: it may read what
   * the node's user may.
   */
  readonly reads?: () => readonly string[]
  readonly limits?: Partial<RunnerLimits>
  /** Resident memory beyond which the process is killed. */
  readonly memoryLimitBytes?: number
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
  onFailed (failure: {
    errorMessage: string, errorCode: 'warmup_timeout' | 'runner_failed', attempts: number
  }): void
}

/** Keeps one runner process alive and hands it tasks. */
export interface Supervisor {
  /** Starts the process; returns at once. Only the first call counts. */
  start (): void
  /**
   * Runs a task; nothing happens before the first pull. Those that wait take turns by `callerId`; without it
   * the node itself asks. With a trace the runner records its part. Throws RunnerError: `overloaded`
   * (details.retryAfterSeconds), `instance_lost`, `cancelled` (the signal aborted), `timeout`,
   * `provider_error`, or the engine's own reason.
   */
  open (
    taskId: string, task: EngineTask, signal: AbortSignal, callerId?: string, trace?: Trace
  ): AsyncIterable<EngineChunk>
  readonly status: RunnerStatus
  report (): RunnerReport
  /**
   * Ends the tasks inside the process with `cancelled`; when it still works on one after `graceMs` it is
   * killed, which counts as a failure of it, and started again.
   */
  cancelTasks (graceMs: number): Promise<RunnerCancel>
  /** Ends the process for good; resolves when it is gone. Cannot be taken back. */
  stop (): Promise<void>
}

/** Receives the lines a runner writes, except those dropped by the rate limit. */
export type RunnerOutput = (stream: 'stdout' | 'stderr', text: string) => void
