import { ByteQueue, type ModelSpec } from '../../../kernel/api/engine.js'
import { isObject, parseJson } from '../../../kernel/api/schema.js'
import { ProtocolError } from './errors.js'
import type { HostLimits } from './limits.js'

/**
 * The frame format between node and runner, over a stream socket:
 *
 *   u32 BE length of what follows | u8 kind | u32 BE task number | u32 BE length of JSON | JSON | media
 *
 * JSON is always an object. Media are raw bytes that belong to it (audio), never put into the JSON.
 */
export interface Frame {
  readonly kind: number
  /** Number of the frame's task; 0 for a frame about the runner itself. */
  readonly task: number
  readonly header: Record<string, unknown>
  readonly media: Uint8Array
  /** Size on the wire in bytes, in which credits are counted. */
  readonly bytes: number
}

const LENGTH_BYTES = 4
const HEAD_BYTES = 1 + 4 + 4
const NO_MEDIA = new Uint8Array(0)

/** Encodes a frame as pieces to write in order; the media are not copied. */
export function encodeFrame (
  kind: number, task: number, header: object, media: Uint8Array = NO_MEDIA
): Uint8Array[] {
  const json = JSON.stringify(header)
  const jsonBytes = Buffer.byteLength(json)
  const head = Buffer.allocUnsafe(LENGTH_BYTES + HEAD_BYTES + jsonBytes)
  head.writeUInt32BE(HEAD_BYTES + jsonBytes + media.byteLength, 0)
  head.writeUInt8(kind, 4)
  head.writeUInt32BE(task, 5)
  head.writeUInt32BE(jsonBytes, 9)
  head.write(json, 13, 'utf8')
  return media.byteLength === 0 ? [head] : [head, media]
}

/** Parses frames from a byte stream in pieces of any size. */
export class FrameParser {
  readonly #maxFrameBytes: number
  readonly #bytes = new ByteQueue()
  #length: number | null = null

  constructor (maxFrameBytes: number) { this.#maxFrameBytes = maxFrameBytes }

  get pending (): number { return this.#bytes.length + (this.#length === null ? 0 : LENGTH_BYTES) }

  push (bytes: Uint8Array): void { this.#bytes.push(bytes) }

  /** The next complete frame; undefined until more bytes arrive. Throws ProtocolError if it is malformed. */
  next (): Frame | undefined {
    if (this.#length === null) {
      if (this.#bytes.length < LENGTH_BYTES) return undefined
      const length = this.#take(LENGTH_BYTES).readUInt32BE()
      if (length < HEAD_BYTES || length > this.#maxFrameBytes) {
        throw new ProtocolError(
          `frame of ${length} bytes; allowed are ${HEAD_BYTES} to ${this.#maxFrameBytes}`)
      }
      this.#length = length
    }
    if (this.#bytes.length < this.#length) return undefined
    const bytes = this.#take(this.#length)
    this.#length = null
    return decode(bytes)
  }

  #take (count: number): Buffer<ArrayBuffer> { return Buffer.from(this.#bytes.take(count).buffer) }
}

function decode (bytes: Buffer<ArrayBuffer>): Frame {
  const jsonBytes = bytes.readUInt32BE(5)
  const jsonEnd = HEAD_BYTES + jsonBytes
  if (jsonEnd > bytes.length) throw new ProtocolError(`frame says ${jsonBytes} bytes of JSON but is shorter`)
  return {
    kind: bytes.readUInt8(0), task: bytes.readUInt32BE(1), header: parse(bytes, jsonEnd),
    media: new Uint8Array(bytes.buffer, jsonEnd), bytes: LENGTH_BYTES + bytes.length
  }
}

function parse (bytes: Buffer, end: number): Record<string, unknown> {
  const value = parseJson(bytes.toString('utf8', HEAD_BYTES, end))
  if (value === undefined) throw new ProtocolError('frame header is not JSON')
  if (!isObject(value)) throw new ProtocolError('frame header is not a JSON object')
  return value
}

export const TO_RUNNER = {
  spec: 1, task: 2, credit: 3, cancel: 4, stop: 5, input: 6, inputEnd: 7, inputFail: 8
} as const

export const FROM_RUNNER = {
  hello: 16,
  progress: 17,
  loaded: 18,
  warming: 19,
  ready: 20,
  work: 21,
  chunk: 22,
  end: 23,
  fail: 24,
  log: 25,
  fatal: 26,
  read: 27
} as const

export interface SpecMessage { spec: ModelSpec, engineModule: string, limits: HostLimits }

/**
 * Credit-based flow control in chunks and bytes. A chunk may be sent while both credits are above zero, so
 * that a chunk larger than the remaining bytes still passes and the next one waits.
 */
export class CreditWindow {
  #chunks: number
  #bytes: number

  constructor (chunks: number, bytes: number) {
    this.#chunks = chunks
    this.#bytes = bytes
  }

  get open (): boolean { return this.#chunks > 0 && this.#bytes > 0 }

  take (bytes: number): void {
    this.#chunks -= 1
    this.#bytes -= bytes
  }

  grant (chunks: number, bytes: number): void {
    this.#chunks += chunks
    this.#bytes += bytes
  }
}

/** Collects the credit for chunks that were read; returns it once it reaches a quarter of the window. */
export class CreditReturn {
  readonly #lotChunks: number
  readonly #lotBytes: number
  #chunks = 0
  #bytes = 0

  constructor (windowChunks: number, windowBytes: number) {
    this.#lotChunks = Math.max(1, windowChunks >> 2)
    this.#lotBytes = Math.max(1, windowBytes >> 2)
  }

  /** Counts one chunk that was read; returns the credit to grant, or null until enough has been collected. */
  countRead (bytes: number): { chunks: number, bytes: number } | null {
    this.#chunks += 1
    this.#bytes += bytes
    if (this.#chunks < this.#lotChunks && this.#bytes < this.#lotBytes) return null
    const lot = { chunks: this.#chunks, bytes: this.#bytes }
    this.#chunks = 0
    this.#bytes = 0
    return lot
  }
}
