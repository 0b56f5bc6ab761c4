import { SvcError, timed, EngineError, kernelError } from '../../../kernel/index.js'
import type { CapabilityCall, EngineChunk, EngineTask, Logger } from '../../../kernel/index.js'
import { NOT_BEGUN, reasonOf, RunnerError } from '../process/errors.js'
import type { Route, RouteQuery, Runners } from '../service.js'
import { ToldError } from './remote/frames.js'
import type { TaskWatchers, TaskTable, TerminalStatus } from './tasks.js'

/** What a request wants of a model. */
export interface TaskRequest extends Pick<RouteQuery, 'modelId' | 'capability'> { task: EngineTask }

/**
 * The way of a capability call to a runner and back: the request becomes a task, whose id goes with the
 * answer, and its chunks pass through. Pulling is the backpressure, the call's signal the cancel. Where the
 * call may be retried and the instance is lost before its first chunk, another one gets the task, once;
 * without another one the loss is the answer. What was refused before anything was done for it needs no leave
 * to be tried again. Throws what `Runners.route` and `Runners.open` throw.
 */
export async function * runTask (
  runners: Runners, { modelId, capability, task }: TaskRequest, call: CapabilityCall
): AsyncGenerator<EngineChunk> {
  const { commandId, caller, signal, trace } = call
  const query: RouteQuery = {
    modelId, capability, commandId, caller, signal, ...(trace === undefined ? {} : { trace })
  }
  const find = async (query: RouteQuery): Promise<Route> => {
    const found = await timed(trace, 'route', 'route', () => runners.route(query))
    trace?.task({ taskId: found.taskId, modelId, capability })
    return found
  }
  let route = await find(query)
  call.setHeader('x-svc-task-id', route.taskId)
  let answered = false
  try {
    for await (const chunk of runners.open(route, task, signal)) {
      answered = true
      yield chunk
    }
    return
  } catch (error) {
    if (answered || signal.aborted || !isLoss(error)) throw error
    const undone = error.details['begun'] === NOT_BEGUN.begun
    if (!undone && !call.retry) throw error
    route = await find({ ...query, except: route.instanceId })
      .catch((none: unknown) => { throw undone ? none : error })
  }
  trace?.note({ retried: true })
  call.setHeader('x-svc-task-id', route.taskId)
  call.setHeader('x-svc-retried', '1')
  yield * runners.open(route, task, signal)
}

const isLoss = (error: unknown): error is SvcError =>
  error instanceof SvcError && error.reason === 'instance_lost'

/** What recording the end of a task needs. */
export interface ServeParts {
  log: Logger
  taskFailed (failure: { taskId: string, commandId: string, errorType: string, errorMessage: string }): void
  watchers: Pick<TaskWatchers, 'begin'>
}

/** A routed task: the table it is entered in, and what opens its stream. */
export interface Work {
  route: Route
  /** A runner of this node serves it. */
  own: boolean
  tasks: TaskTable
  chunks (): AsyncIterable<EngineChunk>
}

/** Runs one routed task to its one terminal status. Throws SvcError, or EngineError as the engine gave it. */
export async function * serve (
  parts: ServeParts, { route, own, tasks, chunks }: Work, signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  const { taskId, modelId } = route
  if (!tasks.start(taskId)) throw kernelError('instance_lost', `Task ${taskId} is not open any more.`)
  const watch = parts.watchers.begin(route, tasks)
  let status: TerminalStatus = 'Cancelled'
  let answered = false
  try {
    for await (const chunk of chunks()) {
      answered = true
      watch?.see(chunk)
      yield chunk
    }
    status = signal.aborted ? whenAborted(signal) : 'Complete'
  } catch (error) {
    // An operator cancels in the runner.
    status = signal.aborted ? whenAborted(signal) : causeOf(error) === 'cancelled' ? 'Cancelled' : 'Failed'
    const commandId = tasks.get(taskId)?.commandId ?? ''
    if (signal.aborted) {
      const { reason } = signal as { reason: unknown }
      // This node goes, and its instances with it.
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

function whenAborted ({ reason }: AbortSignal): TerminalStatus {
  return reason instanceof SvcError && reason.reason === 'timeout' ? 'TimedOut' : 'Cancelled'
}

const KERNEL_REASONS = [
  'overloaded', 'instance_lost', 'provider_error', 'timeout', 'cancelled', 'session_changed'
] as const

/** What the caller is told. A `provider_error` keeps its cause to the log: it may hold anything. */
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

const STOPPING = new RunnerError('instance_lost', 'The node stops.')

/**
 * An ordinary refusal before the first chunk is the client's to read, and the node that served a task has
 * recorded its failure, unless it was lost soon after; all else is worth an event. What was not begun is not
 * lost: another runner may have it.
 */
function worthAnEvent (error: unknown, answered: boolean): boolean {
  const reason = causeOf(error)
  if (notBegun(error) || reason === 'overloaded' || reason === 'cancelled') return false
  if (error instanceof ToldError && reason !== 'instance_lost') return false
  return answered || reason === 'instance_lost' || reason === 'provider_error'
}

const notBegun = (error: unknown): boolean =>
  (error instanceof RunnerError || error instanceof SvcError) && error.details['begun'] === NOT_BEGUN.begun

function record (
  { log, taskFailed }: ServeParts, { taskId, modelId }: Route, commandId: string, error: unknown
): void {
  const reason = causeOf(error)
  log.error({ taskId, commandId, modelId, reason, error: reasonOf(error) }, 'a task failed')
  taskFailed({
    taskId, commandId, errorType: reason, errorMessage: `The task of ${modelId} failed with ${reason}.`
  })
}
