import { checkOf } from '../../kernel/api/validate.js'
import {
  badField, deadline, kernelError, raceAbort, type ClientChunk, type Clock
} from '../../kernel/index.js'
import { FrameError, FrameParser, FrameTooLargeError, rawFrames, type RawFrame } from './frames/frames.js'
import { READ_LIMIT_BYTES, type CapabilityLimits } from './limits.js'
import { callSchema, type CallRequest } from './routes.js'

/** A call whose chunks follow it in the body of the same request. */
export interface FramedCall { request: CallRequest, input: AsyncIterable<ClientChunk> }

/**
 * Reads the call in the first frame of a body; the rest is read as `input` is. Throws `invalid_request`,
 * `payload_too_large`, `timeout` (no call within the default timeout) and the signal's reason.
 */
export async function readFramed (
  body: AsyncIterable<Uint8Array>, signal: AbortSignal, clock: Clock, limits: CapabilityLimits
): Promise<FramedCall> {
  const parser = new FrameParser(READ_LIMIT_BYTES)
  const frames = refusing(rawFrames(body, parser))
  const { signal: either, stop } = deadline(clock, limits.timeoutSeconds * 1000,
    () => kernelError('timeout', `No call arrived within ${limits.timeoutSeconds} s.`), signal)
  const first = await raceAbort(frames.next(), either).finally(stop)
  if (first.done === true) throw badField('message', 'is empty; the first frame must be the call')
  const { header: { kind = 'call', media: _, ...fields }, media } = first.value
  if (kind !== 'call' || media !== null) {
    throw badField('kind', 'of the first frame must be call, without media')
  }
  parser.maxBytes = limits.payloadBytes
  return { request: callOf(fields), input: chunksOf(frames) }
}

async function * chunksOf (frames: AsyncIterable<RawFrame>): AsyncGenerator<ClientChunk> {
  for await (const { header, media } of frames) {
    if (header['kind'] === 'end') return
    if (header['kind'] !== 'chunk') throw badField('kind', 'must be chunk or end')
    yield clientChunk(header, media)
  }
}

/** Throws `invalid_request` if the header of a chunk has no payload. */
export function clientChunk (header: Record<string, unknown>, media: Uint8Array | null): ClientChunk {
  if (!('payload' in header)) throw badField('payload', 'is required')
  return { payload: header['payload'], ...media === null ? {} : { media } }
}

/** The frames, with errors that a client can use. */
async function * refusing (frames: AsyncIterable<RawFrame>): AsyncGenerator<RawFrame> {
  try {
    yield * frames
  } catch (error) {
    if (error instanceof FrameTooLargeError) {
      throw kernelError('payload_too_large', `The body has ${error.message}.`)
    }
    throw error instanceof FrameError
      ? kernelError('invalid_request', `The body is not a stream of frames: ${error.message}.`)
      : kernelError('cancelled', 'The client disconnected.')
  }
}

/** Checks the fields of a call. Throws `invalid_request`. */
export function callOf (fields: Record<string, unknown>): CallRequest {
  const [issue] = checkOf(callSchema)(fields) ?? []
  if (issue === undefined) return fields as unknown as CallRequest
  throw badField(issue.path || 'message', issue.message)
}
