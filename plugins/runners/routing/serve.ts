import { SvcError, EngineError, kernelError, type EngineChunk, type Logger } from '../../../kernel/index.js'
import { NOT_STARTED, reasonOf, RunnerError } from '../process/errors.js'
import type { Route, TerminalStatus } from '../service.js'
import type { TaskFailure } from './lost-tasks.js'
import { RemoteTaskError } from './remote/frames.js'
import type { TaskTable, TaskWatch, TaskWatchers } from './tasks.js'

export interface ServeParts {
  log: Logger
  taskFailed (failure: TaskFailure): void
  watchers: Pick<TaskWatchers, 'admit' | 'begin' | 'beginVirtual'>
}

export interface Work {
  route: Route
  own: boolean
  tasks: TaskTable
  chunks (): AsyncIterable<EngineChunk>
}

/** Runs one routed task to its terminal status. Throws SvcError, or the engine's own EngineError. */
export async function * serve (
  parts: ServeParts, { route, own, tasks, chunks }: Work, signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  const { taskId, modelId } = route
  if (!tasks.open(taskId)) throw kernelError('instance_lost', `Task ${taskId} is no longer open.`)
  // Counts a remote task as started now, because its real start is only reported later, by gossip.
  if (!own) tasks.start(taskId)
  const watch = parts.watchers.begin(route, tasks)
  let status: TerminalStatus = 'Cancelled'
  let answered = false
  try {
    for await (const chunk of chunks()) {
      answered ||= chunk.payload['queue'] === undefined
      watch?.see(chunk)
      yield chunk
    }
    status = signal.aborted ? whenAborted(signal) : 'Complete'
  } catch (error) {
    // An operator's cancel arrives as an error from the runner, not through the signal.
    status = signal.aborted ? whenAborted(signal) : causeOf(error) === 'cancelled' ? 'Cancelled' : 'Failed'
    const commandId = tasks.get(taskId)?.commandId ?? ''
    if (signal.aborted) {
      const { reason } = signal as { reason: unknown }
      if (own && causeOf(reason) === 'shutting_down') record(parts, route, commandId, STOPPING)
      throw reason instanceof SvcError ? reason : kernelError('cancelled')
    }
    if (worthAnEvent(error, answered)) record(parts, route, commandId, error)
    throw publicError(error, modelId)
  } finally {
    tasks.finish(taskId, status)
    watch?.end(status)
  }
}

/** Passes on the chunks of a virtual model, whose task `watch` measures. */
export async function * watched (
  chunks: AsyncIterable<EngineChunk>, watch: TaskWatch | undefined, signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  let status: TerminalStatus = 'Cancelled'
  try {
    for await (const chunk of chunks) {
      watch?.see(chunk)
      yield chunk
    }
    status = 'Complete'
  } catch (error) {
    status = signal.aborted ? whenAborted(signal) : 'Failed'
    throw error
  } finally {
    watch?.end(status)
  }
}

function whenAborted ({ reason }: AbortSignal): TerminalStatus {
  return reason instanceof SvcError && reason.reason === 'timeout' ? 'TimedOut' : 'Cancelled'
}

const KERNEL_REASONS = [
  'overloaded', 'instance_lost', 'provider_error', 'timeout', 'cancelled', 'session_changed'
] as const

/** The error for the caller. The cause of a `provider_error` stays in the log: it may contain user data. */
function publicError (error: unknown, modelId: string): Error {
  if (error instanceof SvcError) return error
  if (!(error instanceof RunnerError)) return kernelError('provider_error')
  const reason = KERNEL_REASONS.find((known) => known === error.reason)
  if (reason === undefined) return new EngineError(error.reason, error.message, error.details)
  const message = reason === 'provider_error' ? undefined : error.message
  return kernelError(reason, message, { model: modelId, ...error.details })
}

const causeOf = (error: unknown): string =>
  error instanceof RunnerError || error instanceof SvcError ? error.reason : 'provider_error'

const STOPPING = new RunnerError('instance_lost', 'The node is stopping.')

/**
 * True if a failure gets a TaskFailed event. Exceptions: an ordinary refusal before the first chunk, which
 * the client reads; a failure that the serving node has recorded; a task that was not started, because
 * another runner may still take it.
 */
function worthAnEvent (error: unknown, answered: boolean): boolean {
  const reason = causeOf(error)
  if (notStarted(error) || reason === 'overloaded' || reason === 'cancelled') return false
  if (error instanceof RemoteTaskError && reason !== 'instance_lost') return false
  return answered || reason === 'instance_lost' || reason === 'provider_error'
}

const notStarted = (error: unknown): boolean =>
  (error instanceof RunnerError || error instanceof SvcError) && error.details['begun'] === NOT_STARTED.begun

function record (
  { log, taskFailed }: ServeParts, { taskId, modelId }: Route, commandId: string, error: unknown
): void {
  const reason = causeOf(error)
  const cause = (error as Error).cause ?? error
  log.error({ taskId, commandId, modelId, reason, error: reasonOf(cause) }, 'a task failed')
  taskFailed({
    taskId, commandId, errorType: reason, errorMessage: `The task of ${modelId} failed with ${reason}.`
  })
}
