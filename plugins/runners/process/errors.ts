/**
 * Why a task could not be served. `reason` is `overloaded` (details.retryAfterSeconds), `instance_lost`,
 * `cancelled`, `timeout`, `provider_error`, or whatever reason the engine gave in an EngineError.
 */
export class RunnerError extends Error {
  readonly reason: string
  readonly details: Record<string, unknown>
  constructor (reason: string, message: string, details: Record<string, unknown> = {}) {
    super(message)
    this.name = 'RunnerError'
    this.reason = reason
    this.details = details
  }
}

/** Detail of an `instance_lost` before which nothing was done for the task: another runner may have it. */
export const NOT_STARTED = { begun: false } as const

/**
 * The end of a task with its runner. The client does not get the cause, which can hold paths and output, but
 * `shown`: the node's own reason for ending the runner.
 */
export function lost (
  cause: string, details: Record<string, unknown> = {}, shown = 'its program ended'
): RunnerError {
  const message = `The instance serving this task was lost: ${shown}.`
  const error = new RunnerError('instance_lost', message, details)
  error.cause = cause
  return error
}

/** Why an engine cannot load the files of a model; an EngineError may give a code other than the first. */
export const LOAD_ERROR_CODES = ['load_failed', 'chat_template_unreadable'] as const
export type UnloadableCode = (typeof LOAD_ERROR_CODES)[number]

/** The kind of a failure, by which the plugin `placement` decides what to do next. */
export type FailureCode =
  'insufficient_memory' | 'download_failed' | 'no_backend' | 'warmup_timeout' | 'runner_failed' |
  'insufficient_storage' | UnloadableCode

/** A runner cannot be started on this node. The message is one sentence without its full stop. */
export class LaunchError extends Error {
  readonly errorCode: FailureCode
  constructor (errorCode: FailureCode, message: string) {
    super(message)
    this.name = 'LaunchError'
    this.errorCode = errorCode
  }
}

export function cancelled (): RunnerError {
  return new RunnerError('cancelled', 'The task was cancelled.')
}

/** The other side broke the frame protocol; the process behind it cannot be trusted any more. */
export class ProtocolError extends Error {
  constructor (message: string) {
    super(message)
    this.name = 'ProtocolError'
  }
}

/** The message of anything thrown, on one line and of bounded length. */
export function reasonOf (error: unknown, maxLength = 500): string {
  const text = error instanceof Error ? error.message : String(error)
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > maxLength ? `${line.slice(0, maxLength)}…` : line
}
