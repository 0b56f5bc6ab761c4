import type { EngineChunk } from '../../../../kernel/index.js'
import { ProtocolError, RunnerError } from '../../process/errors.js'
import { chunkOf, readMessage } from '../../process/messages.js'
import { encodeFrame, FrameParser, FROM_RUNNER, type Frame } from '../../process/protocol.js'
import { DEFAULT_LIMITS } from '../../process/limits.js'

/** Media type of a task's answer between nodes: the frames of the runner protocol, up to a terminal frame. */
export const TASK_TYPE = 'application/vnd.svc.task'

/** Joined hashes of the task's prompt and session; see `PrefixTable`. */
export const PREFIX_HEADER = 'x-svc-prefixes'

const MESSAGE_CHARS = 4_096

/** The failure of a task on the node that served it, which has already recorded the failure. */
export class RemoteTaskError extends RunnerError {}

export interface Failure { reason: string, message: string, details: Record<string, unknown> }

/** Encodes a chunk as pieces to write in order; its media are not copied. `index` counts from 0. */
export function chunkFrame (index: number, { payload, timing, media }: EngineChunk): Uint8Array[] {
  return encodeFrame(FROM_RUNNER.chunk, 0, { index, payload, timing }, media)
}

export interface Recorded { trace?: unknown }

export const endFrame = (recorded: Recorded = {}): Uint8Array[] => encodeFrame(FROM_RUNNER.end, 0, recorded)

export function failFrame ({ reason, message, details }: Failure, recorded: Recorded = {}): Uint8Array[] {
  const body = { reason, message: message.slice(0, MESSAGE_CHARS), details, ...recorded }
  return encodeFrame(FROM_RUNNER.fail, 0, body)
}

/** Yields the frames of a byte stream. Throws ProtocolError if it is malformed or ends inside a frame. */
export async function * framesOf (
  source: AsyncIterable<Uint8Array>, maxFrameBytes: number
): AsyncGenerator<Frame> {
  const parser = new FrameParser(maxFrameBytes)
  for await (const bytes of source) {
    parser.push(bytes)
    for (let frame = parser.next(); frame !== undefined; frame = parser.next()) yield frame
  }
  if (parser.pending > 0) throw new ProtocolError(`the stream ended ${parser.pending} bytes into a frame`)
}

/** `ended` gets the other node's trace of the task, `read` how much of the task's input has been read. */
interface TaskListener { ended? (recorded: unknown): void, read? (total: number): void }

/**
 * Yields the chunks of a task's answer; the bytes may be split anywhere and are read as the caller pulls.
 * Throws RemoteTaskError if the task failed, ProtocolError if the bytes are malformed or end before the
 * terminal frame, and errors from the source. Bytes after the terminal frame are ignored.
 */
export async function * readTask (
  source: AsyncIterable<Uint8Array>, listener: TaskListener = {}
): AsyncGenerator<EngineChunk> {
  let index = 0
  let end: RemoteTaskError | 'clean' | undefined
  try {
    for await (const frame of framesOf(source, DEFAULT_LIMITS.maxFrameBytes)) {
      if (end !== undefined) break
      const message = readMessage(frame)
      if (message.type === 'chunk') {
        if (message.index !== index) {
          throw new ProtocolError(`chunk ${message.index} came in place of ${index}`)
        }
        index += 1
        yield chunkOf(message, frame)
      } else if (message.type === 'read') listener.read?.(message.total)
      else if (message.type === 'end' || message.type === 'fail') {
        end = message.type === 'end'
          ? 'clean' : new RemoteTaskError(message.reason, message.message, message.details)
        listener.ended?.(message.trace)
      } else throw new ProtocolError(`"${message.type}" does not belong to a task`)
    }
  } catch (error) {
    // After the terminal frame, a broken connection does not matter.
    if (end === undefined) throw error
  }
  if (end === undefined) throw new ProtocolError('the answer ended without a terminal')
  if (end !== 'clean') throw end
}
