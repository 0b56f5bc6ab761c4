import { EngineError } from '../../../kernel/api/engine.js'

/**
 * Why a task failed. `reason` is `overloaded` (details.retryAfterSeconds), `instance_lost`, `cancelled`,
 * `timeout`, `provider_error`, or the reason in an EngineError.
 */
export class RunnerError extends EngineError { override readonly name = 'RunnerError' }

/** Details of an `instance_lost` error if no work on the task had begun, so another runner may take it. */
export const NOT_STARTED = { begun: false } as const

/**
 * The error of a task whose runner ended. The client sees `shown`, the node's own reason for ending the
 * runner, but not the cause, which may contain paths and output.
 */
export function lost (
  cause: string, details: Record<string, unknown> = {}, shown = 'its program ended'
): RunnerError {
  const message = `The instance serving this task was lost: ${shown}.`
  const error = new RunnerError('instance_lost', message, details)
  error.cause = cause
  return error
}

/** Why an engine cannot load a model's files. The first is the default; an EngineError may name another. */
export const LOAD_ERROR_CODES = ['load_failed', 'chat_template_unreadable'] as const
export type UnloadableCode = (typeof LOAD_ERROR_CODES)[number]

/** The kind of failure; if `placement` moves the instance, it gives this as the reason. */
export type FailureCode =
  'insufficient_memory' | 'download_failed' | 'no_backend' | 'warmup_timeout' | 'runner_failed' |
  'insufficient_storage' | UnloadableCode

/** A runner cannot be started on this node. The message is one sentence without a full stop. */
export class LaunchError extends Error {
  override readonly name = 'LaunchError'
  readonly errorCode: FailureCode

  constructor (errorCode: FailureCode, message: string) {
    super(message)
    this.errorCode = errorCode
  }
}

export function cancelled (): RunnerError { return new RunnerError('cancelled', 'The task was cancelled.') }

/** The peer violated the frame protocol; its process can no longer be trusted. */
export class ProtocolError extends Error { override readonly name = 'ProtocolError' }

/** The message of any thrown value, on one line and of bounded length. */
export function reasonOf (error: unknown, maxLength = 500): string {
  const text = error instanceof Error ? error.message : String(error)
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > maxLength ? `${line.slice(0, maxLength)}…` : line
}
