import type { Clock, Logger } from '../../../kernel/index.js'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import type { FlightRecorder } from './flight.js'
import type { RunnerLimits } from './limits.js'
import type { TaskChannel } from './tasks.js'

/** Hears every line a runner writes that is not one too many. */
export type RunnerOutput = (stream: 'stdout' | 'stderr', text: string) => void

/** What a runner process is made from. */
export interface ProcessOptions {
  spec: ModelSpec
  engineModule: string
  scratch: string
  reads: (() => readonly string[]) | undefined
  mark: string
  limits: RunnerLimits
  memoryLimitBytes: number | undefined
  clock: Clock
  log: Logger
  flight: FlightRecorder
  output: RunnerOutput | undefined
  processorWaitMs: (pid: number) => number
}

/** How a runner process ended. `message` is null after an orderly stop. */
export interface Ended { message: string | null, wedged: boolean, exitCode: number | null, readyMs: number }

export interface ProcessEvents {
  /** It has reached the next stage of its life. */
  connected (): void
  progress (loaded: number, total: number): void
  loaded (info: Record<string, unknown>): void
  warming (): void
  ready (warmupMs: number): void
  /** A task has left the runner. `served` is false when it was lost, failed or cancelled. */
  released (channel: TaskChannel, served: boolean): void
  /** A chunk came: the model computes. */
  alive (): void
  /** A chunk was dropped: late, double, or of a task that had ended. */
  dropped (): void
  /** Called once, last. */
  ended (how: Ended): void
}
