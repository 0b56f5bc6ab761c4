import { SvcError, timed } from '../../../kernel/index.js'
import type { CapabilityCall, EngineChunk, EngineTask } from '../../../kernel/index.js'
import { NOT_BEGUN } from '../process/errors.js'
import type { Route, RouteQuery, Runners } from '../service.js'

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
