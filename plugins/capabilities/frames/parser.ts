// Parser of `application/vnd.svc.frames`. No Node imports: the web page uses this file too.
import { ByteQueue } from '../../../kernel/api/byte-queue.js'
import { isObject, parseJson } from '../../../kernel/api/schema.js'

/** Bytes of the big-endian length before the header. */
export const LENGTH_BYTES = 4
/** Limit on the JSON header; a payload of 1 MiB fits even if escaped. */
const MAX_HEADER_BYTES = 8 * 1024 * 1024
const MAX_MEDIA_BYTES = 64 * 1024 * 1024

/** Thrown if the bytes do not follow the frame format, or end early. */
export class FrameError extends Error { override readonly name = 'FrameError' }

export class FrameTooLargeError extends FrameError {}

/** `error` reports an invalid session message that belongs to no call, so it ends no call. */
export type FrameKind = 'started' | 'chunk' | 'completed' | 'failed' | 'cancelled' | 'error'

export const isTerminal = (kind: FrameKind): boolean =>
  kind === 'completed' || kind === 'failed' || kind === 'cancelled'

/** Media description with times in seconds and `size` in bytes. */
export interface FrameMedia {
  media_type: string
  codec: string
  sample_rate: number
  channels: number
  size: number
  timestamp_seconds: number
  duration_seconds: number
}

/** A parsed frame; only `media.size` has been checked. */
export interface RawFrame { header: Record<string, unknown>, media: Uint8Array<ArrayBuffer> | null }

export class FrameParser {
  /** Limit on the header and the media of a frame together. */
  maxBytes: number
  readonly #bytes = new ByteQueue()
  #header: { fields: Record<string, unknown>, size: number } | null = null
  #headerLength: number | null = null

  constructor (maxBytes = Infinity) { this.maxBytes = maxBytes }

  /** Number of buffered bytes in an incomplete frame. */
  get pending (): number {
    return this.#bytes.length + (this.#headerLength === null ? 0 : LENGTH_BYTES)
  }

  push (bytes: Uint8Array): void { this.#bytes.push(bytes) }

  next (): RawFrame | null {
    if (this.#headerLength === null) {
      if (this.#bytes.length < LENGTH_BYTES) return null
      const length = new DataView(this.#bytes.take(LENGTH_BYTES).buffer).getUint32(0)
      if (length < 2 || length > MAX_HEADER_BYTES) {
        throw new FrameError(`a frame header of ${length} bytes; expected 2 to ${MAX_HEADER_BYTES}`)
      }
      this.#limit(length)
      this.#headerLength = length
    }
    if (this.#header === null) {
      if (this.#bytes.length < this.#headerLength) return null
      this.#header = parseHeader(this.#bytes.take(this.#headerLength))
      this.#limit(this.#headerLength + this.#header.size)
    }
    const { fields, size } = this.#header
    if (this.#bytes.length < size) return null
    this.#header = this.#headerLength = null
    const none = (fields['media'] ?? null) === null
    return { header: fields, media: none ? null : this.#bytes.take(size) }
  }

  #limit (bytes: number): void {
    if (bytes <= this.maxBytes) return
    throw new FrameTooLargeError(`a frame of ${bytes} bytes; at most ${this.maxBytes} are accepted`)
  }
}

function parseHeader (bytes: Uint8Array): { fields: Record<string, unknown>, size: number } {
  const fields = parseJson(new TextDecoder().decode(bytes))
  if (fields === undefined) throw new FrameError('a frame header is not JSON')
  if (!isObject(fields)) throw new FrameError('a frame header is not a JSON object')
  const media = fields['media'] ?? null
  if (media === null) return { fields, size: 0 }
  const size = (media as { size?: unknown }).size
  if (!Number.isInteger(size) || (size as number) < 0 || (size as number) > MAX_MEDIA_BYTES) {
    throw new FrameError(`media.size must be a whole number from 0 to ${MAX_MEDIA_BYTES}`)
  }
  return { fields, size: size as number }
}
