import { Admission, readRefusal, SvcError, traceHeaders } from '../../../../kernel/index.js'
import type {
  Caller, Clock, Cluster, EngineChunk, EngineTask, MemberResponse
} from '../../../../kernel/index.js'
import { NOT_BEGUN, ProtocolError, reasonOf, RunnerError } from '../../process/errors.js'
import type { Route } from '../../service.js'
import type { Task } from '../tasks.js'
import { readTask, TASK_TYPE, ToldError } from './frames.js'
import { watchNode } from './watch.js'

/** Where a node takes tasks of others; declared in `routes.ts`. */
export const TASKS_PATH = '/runners/tasks'
/** How long the other node may take to accept a task; its answer has no deadline here. */
const HEAD_MS = 10_000
/** Tasks of this node that one other node serves at once: each holds a connection. */
const TASKS_PER_NODE = 128

export interface SendParts {
  cluster: Pick<Cluster, 'request' | 'resolve'>
  clock: Clock
}

/** What the other node is told about a task besides its route. */
export interface Errand {
  task: EngineTask
  about: Pick<Task, 'commandId' | 'capability'>
  /** In whose name. */
  caller: Caller
}

/** Runs tasks on runners of other nodes. */
export interface Sender {
  /**
   * The chunks of the task as the other node gives them; asking for the next one is what makes it send on.
   * Throws RunnerError: ToldError with the reason the other node gave, `overloaded`, or `instance_lost` when
   * that node cannot be reached, breaks off or talks nonsense.
   */
  open (route: Route, errand: Errand, signal: AbortSignal): AsyncGenerator<EngineChunk>
}

export function createSender (parts: SendParts): Sender {
  const doors = new Map<string, Admission>()
  const doorTo = (route: Route): Admission => {
    const known = doors.get(route.installId)
    if (known !== undefined) return known
    const name = `The way to ${nodeName(parts, route)}`
    const door = new Admission(name, parts.clock, { concurrency: TASKS_PER_NODE, queue: 0 })
    doors.set(route.installId, door)
    return door
  }
  return {
    async * open (route, errand, signal) {
      signal.throwIfAborted()
      const leave = await doorTo(route).enter(errand.caller.id, signal).catch((error: unknown) => {
        throw error instanceof SvcError ? new RunnerError(error.reason, error.message, error.details) : error
      })
      try {
        yield * exchange(parts, route, errand, signal)
      } finally {
        leave()
      }
    }
  }
}

/** One request; it ends with its reader, its signal and its node. */
async function * exchange (
  parts: SendParts, route: Route, errand: Errand, signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  const line = new AbortController()
  const end = (): void => { line.abort() }
  signal.throwIfAborted()
  const hop = route.trace?.hop('network', route, {
    node: parts.cluster.resolve(route.installId)?.name ?? route.installId
  })
  signal.addEventListener('abort', end, { once: true })
  const stopWatching = watchNode(parts.cluster, parts.clock, route.installId, end)
  try {
    const response = await ask(parts, route, errand, line.signal)
    const { body } = response
    // A reader that has gone must not turn a broken connection into a crash.
    body.on('error', () => {})
    line.signal.addEventListener('abort', () => { body.destroy() })
    if (response.status !== 200) throw await refusal(response)
    // A reader that stops, or gives up what it reads, destroys the body.
    yield * readTask(body as AsyncIterable<Uint8Array>, (recorded) => { hop?.done(recorded) })
  } catch (error) {
    throw error instanceof ToldError ? error : lost(parts, route, error, line.signal.aborted)
  } finally {
    hop?.done()
    signal.removeEventListener('abort', end)
    stopWatching()
  }
}

async function ask (
  { cluster }: SendParts, route: Route, { task, about, caller }: Errand, signal: AbortSignal
): Promise<MemberResponse> {
  const { taskId, modelId, instanceId, runnerId, installId } = route
  const { commandId, capability } = about
  return await cluster.request(installId, {
    method: 'POST',
    path: TASKS_PATH,
    headers: { accept: TASK_TYPE, ...traceHeaders(route.trace) },
    body: {
      taskId, commandId, modelId, instanceId, runnerId, capability,
      task: { kind: task.kind, payload: task.payload }
    },
    caller,
    signal,
    timeoutMs: HEAD_MS
  })
}

/** What the other node says about a node of its own, its route or its state: not the caller's business. */
const NOT_PASSED_ON = ['shutting_down', 'not_found', 'plugin_disabled', 'method_not_allowed']

/** The other node refused the task before it did anything for it. */
class Refused extends ProtocolError {}

/** The error that an answer with another status than 200 stands for. */
async function refusal ({ status, headers, body }: MemberResponse): Promise<Error> {
  const said = await readRefusal(body as AsyncIterable<Uint8Array>)
  if (said === null || said.message === '' || NOT_PASSED_ON.includes(said.reason)) {
    return new Refused(`it answered ${status}${said === null ? '' : ` ${said.reason}`}`)
  }
  const seconds = Number(headers['retry-after'])
  const details = seconds > 0 ? { retryAfterSeconds: seconds, ...said.details } : said.details
  return new ToldError(said.reason, said.message, details)
}

/** The other node, the connection to it, or the sense of what it says was lost. */
function lost (parts: SendParts, route: Route, error: unknown, ended: boolean): RunnerError {
  const undone = error instanceof Refused || (error instanceof SvcError && 'addresses' in error.details)
  const how = ended ? 'was lost' : `broke off: ${reasonOf(error, 200)}`
  return new RunnerError('instance_lost',
    `The instance of ${route.modelId} was lost: ${nodeName(parts, route)} ${how}.`,
    { nodeId: route.nodeId, instanceId: route.instanceId, ...(undone ? NOT_BEGUN : {}) })
}

function nodeName ({ cluster }: SendParts, { nodeId, installId }: Route): string {
  return `node ${cluster.resolve(installId)?.name ?? installId} (${nodeId})`
}
