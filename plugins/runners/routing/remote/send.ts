import { Readable } from 'node:stream'
import { readRefusal, SvcError, traceHeaders, whileLive } from '../../../../kernel/index.js'
import type {
  Caller, EngineChunk, EngineTask, Hop, MemberParts, MemberResponse
} from '../../../../kernel/index.js'
import { NOT_STARTED, ProtocolError, reasonOf, RunnerError } from '../../process/errors.js'
import { InputSender } from '../../process/input.js'
import { encodeFrame, TO_RUNNER } from '../../process/protocol.js'
import type { Route } from '../../service.js'
import type { Task } from '../tasks.js'
import { PREFIX_HEADER, readTask, TASK_TYPE, RemoteTaskError } from './frames.js'

const TASKS_PATH = '/runners/tasks'
/** Limit in ms on the wait until the other node accepts a task; the answer itself has no deadline here. */
const HEAD_MS = 10_000

interface RemoteTask { task: EngineTask, about: Pick<Task, 'commandId' | 'capability'>, caller: Caller }

/**
 * The chunks of a task from the node that serves it, requested as the reader pulls. It ends when its reader
 * stops, its signal aborts, or that node is lost. Throws RunnerError: RemoteTaskError with the other node's
 * reason, or `instance_lost` if that node is unreachable, disconnects or sends malformed data.
 */
export async function * openRemote (
  parts: MemberParts, route: Route, remote: RemoteTask, signal: AbortSignal
): AsyncGenerator<EngineChunk> {
  signal.throwIfAborted()
  const node = nameOf(parts, route)
  const hop = route.trace?.hop('network', route, { node })
  const link = whileLive(parts, route.installId, signal)
  const upload = new Readable({ read () {} })
  const { input } = remote.task
  const sender = input === undefined ? undefined : new InputSender(input, (kind, header, media) => {
    for (const piece of encodeFrame(kind, 0, header, media)) upload.push(piece)
    if (kind !== TO_RUNNER.input) upload.push(null)
  }, () => parts.clock.mono())
  try {
    const response = await ask(parts, route, remote, hop, link.signal, upload)
    if (response.status !== 200) throw await refusal(response)
    yield * readTask(response.body, {
      ended: (recorded) => { hop?.done(recorded) },
      read: (total) => { sender?.onRead(total) }
    })
  } catch (error) {
    throw error instanceof RemoteTaskError
      ? new RemoteTaskError(error.reason, error.message, { node, ...error.details })
      : lost(parts, route, error, link.signal.aborted)
  } finally {
    sender?.stop()
    upload.destroy()
    hop?.done()
    link.end()
  }
}

async function ask (
  parts: MemberParts, route: Route, { task, about, caller }: RemoteTask, hop: Hop | undefined,
  signal: AbortSignal, upload: Readable
): Promise<MemberResponse> {
  const { taskId, modelId, instanceId, runnerId, installId, prefixes } = route
  const { commandId, capability } = about
  const body = {
    taskId, commandId, modelId, instanceId, runnerId, capability,
    task: { kind: task.kind, payload: task.payload }
  }
  const streams = task.input !== undefined
  // A task with input is the first frame of a body that goes on while the answer arrives.
  if (streams) upload.push(Buffer.concat(encodeFrame(TO_RUNNER.task, 0, body)))
  return await parts.cluster.request(installId, {
    method: 'POST', path: TASKS_PATH, headers: {
      accept: TASK_TYPE, ...traceHeaders(hop), ...prefixes ? { [PREFIX_HEADER]: prefixes } : {}
    },
    ...streams ? { upload: { type: TASK_TYPE, bytes: upload } } : { body }, caller, signal,
    timeoutMs: HEAD_MS
  })
}

/** Refusals that only concern the other node, so the caller gets `instance_lost` instead. */
const NOT_PASSED_ON = ['shutting_down', 'not_found', 'plugin_disabled', 'method_not_allowed']

/** Thrown if the other node refused the task before doing any work on it. */
class Refused extends ProtocolError {}

async function refusal ({ status, headers, body }: MemberResponse): Promise<Error> {
  const refused = await readRefusal(body)
  if (refused === null || refused.message === '' || NOT_PASSED_ON.includes(refused.reason)) {
    return new Refused(`it answered ${status}${refused === null ? '' : ` ${refused.reason}`}`)
  }
  const seconds = Number(headers['retry-after'])
  const details = seconds > 0 ? { retryAfterSeconds: seconds, ...refused.details } : refused.details
  return new RemoteTaskError(refused.reason, refused.message, details)
}

/** The error for a task whose node left, broke the connection or sent malformed data. */
function lost (parts: MemberParts, route: Route, error: unknown, ended: boolean): RunnerError {
  const undone = error instanceof Refused || (error instanceof SvcError && error.details['begun'] === false)
  const how = ended ? 'was lost' : `broke off: ${reasonOf(error, 200)}`
  return new RunnerError('instance_lost',
    `The instance of ${route.modelId} was lost: node ${nameOf(parts, route)} (${route.nodeId}) ${how}.`,
    { nodeId: route.nodeId, instanceId: route.instanceId, ...(undone ? NOT_STARTED : {}) })
}

const nameOf = ({ cluster }: MemberParts, { installId }: Route): string =>
  cluster.resolve(installId)?.name ?? installId
