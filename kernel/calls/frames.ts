import { isObject } from '../api/schema.js'
import type { ErrorBody } from '../http/error-body.js'
import type { ChunkMedia } from '../api/plugin.js'

export const FRAMES_TYPE = 'application/vnd.svc.frames'

/** `error` is a complaint about a session message that belongs to no call; it ends nothing. */
export type FrameKind = 'started' | 'chunk' | 'completed' | 'failed' | 'cancelled' | 'error'

/** What is said about the bytes of a frame. Times in seconds, `size` in bytes. */
export interface FrameMedia {
  media_type: string
  codec: string
  sample_rate: number
  channels: number
  size: number
  timestamp_seconds: number
  duration_seconds: number
}

export interface FrameHeader {
  call_id: string | null
  sequence: number
  kind: FrameKind
  payload: unknown
  media: FrameMedia | null
  error: ErrorBody['error'] | null
  /** In the terminal for another node: what was recorded here of a traced call. */
  trace?: unknown
}

/** One frame of a stream: the header, and `media.size` bytes beside it. */
export interface Frame { header: FrameHeader, media: Uint8Array | null }

/** Whether no frame follows this one. */
export const isTerminal = (kind: FrameKind): boolean =>
  kind === 'completed' || kind === 'failed' || kind === 'cancelled'

/** The media fields of a frame for a chunk's bytes. */
export function mediaOf (media: ChunkMedia): FrameMedia {
  return {
    media_type: media.mediaType,
    codec: media.codec,
    sample_rate: media.sampleRate,
    channels: media.channels,
    size: media.bytes.byteLength,
    timestamp_seconds: media.timestampSeconds,
    duration_seconds: media.durationSeconds
  }
}

const LENGTH_BYTES = 4
/** Longest header a reader accepts: a payload of 1 MiB in escapes fits. */
const MAX_HEADER_BYTES = 8 * 1024 * 1024
const MAX_MEDIA_BYTES = 64 * 1024 * 1024

/** `application/vnd.svc.frames`: header length as 4 bytes big-endian, the JSON header, the media bytes. */
export function encodeFrame (frame: { header: object, media: Uint8Array | null }): Uint8Array {
  const header = Buffer.from(JSON.stringify(frame.header))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(header.byteLength)
  return Buffer.concat(frame.media === null ? [length, header] : [length, header, frame.media])
}

/** `text/event-stream`: the header as one event, the bytes as base64 in `media.data`. */
export function encodeEvent (frame: Frame): string {
  const { header, media } = frame
  const shown = header.media === null || media === null
    ? header
    : { ...header, media: { ...header.media, data: Buffer.from(media).toString('base64') } }
  return `data: ${JSON.stringify(shown)}\n\n`
}

/** The bytes do not follow the frame format, or they end too early. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

/** Reads one message that is exactly one frame. The header's fields are not checked. Throws FrameError. */
export function decodeFrame (message: Uint8Array): RawFrame {
  const parser = new FrameParser()
  parser.push(message)
  const frame = parser.next()
  if (frame === null || parser.pending > 0) throw new FrameError('the message is not exactly one frame')
  return frame
}

/**
 * Reads a whole stream of frames, however its bytes are cut. Ends after the terminal frame. Throws
 * FrameError when the bytes are no frames, or end before a terminal frame (a cut connection).
 */
export async function * decodeFrames (source: AsyncIterable<Uint8Array>): AsyncGenerator<Frame> {
  const parser = new FrameParser()
  for await (const bytes of source) {
    parser.push(bytes)
    for (let raw = parser.next(); raw !== null; raw = parser.next()) {
      const frame = raw as unknown as Frame
      yield frame
      if (isTerminal(frame.header.kind)) return
    }
  }
  throw new FrameError(parser.pending > 0
    ? `the stream ended inside a frame (${parser.pending} bytes of it had arrived)`
    : 'the stream ended without a terminal frame')
}

/** A frame as it was read; nothing but `media.size` has been checked. */
export interface RawFrame { header: Record<string, unknown>, media: Uint8Array | null }

/** Collects bytes until a frame is whole. */
class FrameParser {
  #parts: Uint8Array[] = []
  #length = 0
  #header: { fields: Record<string, unknown>, size: number } | null = null
  #headerLength: number | null = null

  /** Bytes that wait for the rest of their frame. */
  get pending (): number {
    return this.#length + (this.#headerLength === null ? 0 : LENGTH_BYTES)
  }

  push (bytes: Uint8Array): void {
    if (bytes.byteLength === 0) return
    this.#parts.push(bytes)
    this.#length += bytes.byteLength
  }

  next (): RawFrame | null {
    if (this.#headerLength === null) {
      if (this.#length < LENGTH_BYTES) return null
      const length = this.#take(LENGTH_BYTES).readUInt32BE()
      if (length < 2 || length > MAX_HEADER_BYTES) {
        throw new FrameError(`a frame header of ${length} bytes; from 2 to ${MAX_HEADER_BYTES} are possible`)
      }
      this.#headerLength = length
    }
    if (this.#header === null) {
      if (this.#length < this.#headerLength) return null
      this.#header = parseHeader(this.#take(this.#headerLength))
    }
    const { fields, size } = this.#header
    if (this.#length < size) return null
    this.#header = this.#headerLength = null
    const none = (fields['media'] ?? null) === null
    return { header: fields, media: none ? null : this.#take(size) }
  }

  #take (count: number): Buffer {
    const out = Buffer.allocUnsafe(count)
    let filled = 0
    while (filled < count) {
      const part = this.#parts[0]!
      const used = part.subarray(0, count - filled)
      out.set(used, filled)
      filled += used.byteLength
      if (used.byteLength === part.byteLength) this.#parts.shift()
      else this.#parts[0] = part.subarray(used.byteLength)
    }
    this.#length -= count
    return out
  }
}

function parseHeader (bytes: Buffer): { fields: Record<string, unknown>, size: number } {
  let fields: unknown
  try {
    fields = JSON.parse(bytes.toString())
  } catch {
    throw new FrameError('a frame header is not JSON')
  }
  if (!isObject(fields)) throw new FrameError('a frame header is not a JSON object')
  const media = fields['media'] ?? null
  if (media === null) return { fields, size: 0 }
  const size = (media as { size?: unknown }).size
  if (!Number.isInteger(size) || (size as number) < 0 || (size as number) > MAX_MEDIA_BYTES) {
    throw new FrameError(`media.size must be a whole number from 0 to ${MAX_MEDIA_BYTES}`)
  }
  return { fields, size: size as number }
}
