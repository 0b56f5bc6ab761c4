import {
  FrameError, FrameParser, FrameTooLargeError, isTerminal, LENGTH_BYTES, type FrameKind, type FrameMedia,
  type RawFrame
} from './parser.js'
import type { ChunkMedia, ClientChunk, ErrorBody } from '../../../kernel/index.js'

export { FrameError, FrameParser, FrameTooLargeError, isTerminal }
export type { FrameKind, FrameMedia, RawFrame }

export const FRAMES_TYPE = 'application/vnd.svc.frames'

export interface FrameHeader {
  call_id: string | null
  sequence: number
  kind: FrameKind
  payload: unknown
  media: FrameMedia | null
  error: ErrorBody['error'] | null
  /** The trace recorded on this node, in a terminal frame for the node that forwarded the call. */
  trace?: unknown
}

export interface Frame { header: FrameHeader, media: Uint8Array | null }

export function mediaOf (media: ChunkMedia): FrameMedia {
  return {
    media_type: media.mediaType, codec: media.codec, sample_rate: media.sampleRate,
    channels: media.channels, size: media.bytes.byteLength, timestamp_seconds: media.timestampSeconds,
    duration_seconds: media.durationSeconds
  }
}

/** `application/vnd.svc.frames`: header length (4 bytes, big-endian), JSON header, media bytes. */
export function encodeFrame (frame: { header: object, media: Uint8Array | null }): Uint8Array {
  const header = Buffer.from(JSON.stringify(frame.header))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32BE(header.byteLength)
  return Buffer.concat(frame.media === null ? [length, header] : [length, header, frame.media])
}

/** The body of a call with chunks, for the node that serves it. */
export async function * framedBody (
  call: object, chunks: AsyncIterable<ClientChunk>
): AsyncGenerator<Uint8Array> {
  yield encodeFrame({ header: call, media: null })
  for await (const { payload, media = null } of chunks) {
    const described = media === null ? null : { size: media.byteLength }
    yield encodeFrame({ header: { kind: 'chunk', payload, media: described }, media })
  }
}

/** `text/event-stream`: the header as one event, the bytes as base64 in `media.data`. */
export function encodeEvent (frame: Frame): string {
  const { header, media } = frame
  const shown = header.media === null || media === null
    ? header
    : { ...header, media: { ...header.media, data: Buffer.from(media).toString('base64') } }
  return `data: ${JSON.stringify(shown)}\n\n`
}

/** Parses a message that is exactly one frame, without checking the header fields. Throws FrameError. */
export function decodeFrame (message: Uint8Array): RawFrame {
  const parser = new FrameParser()
  parser.push(message)
  const frame = parser.next()
  if (frame === null || parser.pending > 0) throw new FrameError('the message is not exactly one frame')
  return frame
}

/** Yields the frames of a byte stream. Throws FrameError if the bytes are not frames, or end inside one. */
export async function * rawFrames (
  source: AsyncIterable<Uint8Array>, parser = new FrameParser()
): AsyncGenerator<RawFrame> {
  for await (const bytes of source) {
    parser.push(bytes)
    for (let frame = parser.next(); frame !== null; frame = parser.next()) yield frame
  }
  if (parser.pending > 0) {
    throw new FrameError(`the stream ended inside a frame (${parser.pending} bytes of it had arrived)`)
  }
}

/**
 * Parses the frames of a call's answer. Ends after the terminal frame, but reads the source to its end, so
 * that the connection can be reused. Throws FrameError if the bytes are not frames, or end before a terminal
 * frame (a broken connection).
 */
export async function * decodeFrames (source: AsyncIterable<Uint8Array>): AsyncGenerator<Frame> {
  let ended = false
  try {
    for await (const raw of rawFrames(source)) {
      if (ended) return
      const frame = raw as unknown as Frame
      ended = isTerminal(frame.header.kind)
      yield frame
    }
  } catch (error) {
    // After the terminal frame, a broken connection is harmless.
    if (!ended) throw error
  }
  if (!ended) throw new FrameError('the stream ended without a terminal frame')
}
