import { EngineError, kernelError, SvcError, TRACE_HEADER, whileLive } from '../../../../kernel/index.js'
import type {
  Clock, Cluster, Commands, EngineChunk, EngineTask, RouteRequest, StreamWriter, Trace, Tracers
} from '../../../../kernel/index.js'
import { checkOf } from '../../../../kernel/api/validate.js'
import { reasonOf } from '../../process/errors.js'
import { TaskInput } from '../../process/input.js'
import { encodeFrame, FROM_RUNNER, TO_RUNNER } from '../../process/protocol.js'
import type { Frame } from '../../process/protocol.js'
import { routes } from '../../routes.js'
import type { Route } from '../../service.js'
import type { TaskRequester } from '../tasks.js'
import { chunkFrame, endFrame, failFrame, framesOf, PREFIX_HEADER, TASK_TYPE } from './frames.js'
import type { Failure, Recorded } from './frames.js'

/** Milliseconds without reads after which the answer is cut off; the other node limits slow clients. */
const STALL_MS = 3_600_000

type TaskRequest = RouteRequest<typeof routes.task>

/** A task from another node; `trace` records this node's spans, `prefixes` are joined hashes, unchecked. */
export type Assigned = Omit<TaskRequest['body'], 'task'> &
  { trace?: Trace | undefined, prefixes?: string | undefined }

interface ReceiveParts {
  cluster: Pick<Cluster, 'resolve'>
  clock: Clock
  commands: Pick<Commands, 'track'>
  tracers: Pick<Tracers, 'begin'>
  routing: {
    /** Registers the task on this node. Throws `instance_lost`, `invalid_request`. */
    take (assigned: Assigned, requester: TaskRequester): Route
    open (route: Route, task: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk>
  }
}

/**
 * Handler of POST /runners/tasks: runs a task for another node on a local runner. The response starts at once
 * with status 200; the task's chunks and outcome are frames in it.
 */
export function taskHandler (parts: ReceiveParts): (request: TaskRequest) => Promise<void> {
  return async (request) => {
    const { member, caller, upload = null } = request
    if (member === null) throw kernelError('not_found')
    const frames = upload === null ? null : framesOf(upload, routes.task.bodyLimit)
    const body = frames === null ? request.body : await firstOf(frames)
    const stream = request.open({ contentType: TASK_TYPE, stallMs: STALL_MS })
    const end = new AbortController()
    // Tracked by task id, because the command id is already in use if the request came through this node.
    const untrack = parts.commands.track({
      commandId: body.taskId, caller, abort: (reason) => { end.abort(kernelError(reason)) }
    })
    const link = whileLive(parts, member, AbortSignal.any([request.signal, end.signal]),
      () => { stream.cut() })
    const trace = traceOf(parts, request, body)
    const prefixes = request.headers[PREFIX_HEADER]
    const asked = { ...body, requester: { caller, member }, trace, prefixes }
    try {
      await answer(parts, stream, asked, frames, link.signal)
    } finally {
      void frames?.return(undefined)
      link.end()
      untrack()
    }
  }
}

/** The task in the first frame of a body with input. Throws `invalid_request`. */
async function firstOf (frames: AsyncIterator<Frame>): Promise<TaskRequest['body']> {
  const { value } = await frames.next().catch((error: unknown) => {
    throw kernelError('invalid_request', `The body is not a task: ${reasonOf(error, 200)}.`)
  }) as { value: Frame | undefined }
  const [issue] = checkOf(routes.task.body)(value?.header) ?? []
  if (issue === undefined && value?.kind === TO_RUNNER.task) return value.header as TaskRequest['body']
  throw kernelError('invalid_request', `${issue?.path || 'body'} ${issue?.message ?? 'is not a task'}`)
}

/** Passes the frames after the first one on to the task. */
async function receiveInput (frames: AsyncIterable<Frame>, input: TaskInput): Promise<void> {
  try {
    for await (const frame of frames) input.onFrame(frame)
    throw kernelError('cancelled', 'The input of the task ended early.')
  } catch (error) {
    input.end(error as Error)
  }
}

/** The trace for this node's spans; undefined if the other node does not request one. */
function traceOf (
  { tracers }: ReceiveParts, { headers, arrivedMs }: TaskRequest, body: TaskRequest['body']
): Trace | undefined {
  if (headers[TRACE_HEADER] !== '1') return undefined
  const { commandId, capability, taskId, modelId } = body
  const trace = tracers.begin({
    commandId, name: capability, arrivedMs, traceparent: headers['traceparent'], member: true
  })
  trace?.task({ taskId, modelId, capability })
  return trace
}

async function answer (
  { routing }: ReceiveParts, stream: StreamWriter,
  asked: Assigned & Pick<TaskRequest['body'], 'task'> & { requester: TaskRequester },
  frames: AsyncIterable<Frame> | null, signal: AbortSignal
): Promise<void> {
  const { task, requester, ...assigned } = asked
  const { trace } = asked
  const sends = trace?.series('send', 'network')
  const send = async (pieces: Uint8Array[]): Promise<void> => {
    const startMs = trace?.now() ?? 0
    try {
      for (const piece of pieces) await stream.write(piece)
      sends?.add(startMs, trace!.now())
    } catch (error) {
      stream.cut()
      throw error
    }
  }
  // Frames about the input must not come between the pieces of a chunk.
  let line: Promise<void> = Promise.resolve()
  const write = (pieces: Uint8Array[]): Promise<void> => line = line.then(async () => { await send(pieces) })
  const input = new TaskInput((total) => {
    write(encodeFrame(FROM_RUNNER.read, 0, { total })).catch(() => {})
  })
  if (frames !== null) void receiveInput(frames, input)
  const work = frames === null ? task : { ...task, input }
  const recorded = (): Recorded => trace === undefined ? {} : { trace: trace.part() }
  let index = 0
  try {
    for await (const chunk of routing.open(routing.take(assigned, requester), work, signal)) {
      await write(chunkFrame(index++, chunk))
    }
    await write(endFrame(recorded()))
  } catch (error) {
    if (!stream.closed) await write(failFrame(failureOf(error), recorded())).catch(() => {})
  }
}

/** The failure that the other node gets: a lost instance if this node is stopping. */
function failureOf (error: unknown): Failure {
  const known = error instanceof SvcError || error instanceof EngineError ? error : kernelError('internal')
  const { message, details } = known
  if (known.reason !== 'shutting_down') return { reason: known.reason, message, details }
  return { reason: 'instance_lost', message: 'The node that served the task is stopping.', details: {} }
}
