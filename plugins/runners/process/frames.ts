import { ProtocolError } from './errors.js'

/**
 * The frame format between node and runner, over a stream socket:
 *
 *   u32 BE length of what follows | u8 kind | u32 BE task number | u32 BE length of JSON | JSON | media
 *
 * JSON is always an object. Media are raw bytes that belong to it (audio), never put into the JSON.
 */
export interface Frame {
  readonly kind: number
  /** Number of the task it is about; 0 for the runner as a whole. */
  readonly task: number
  readonly header: Record<string, unknown>
  readonly media: Uint8Array
  /** Size on the wire; what credits are counted in. */
  readonly bytes: number
}

const LENGTH_BYTES = 4
const HEAD_BYTES = 1 + 4 + 4
const NO_MEDIA = new Uint8Array(0)

/** The bytes of a frame, as pieces to be written one after the other; the media are not copied. */
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

/**
 * Cuts frames out of a byte stream that arrives in pieces of any size. Pieces are kept as they came and
 * joined once per frame, so that the cost stays linear in the bytes.
 */
export class FrameParser {
  readonly #maxFrameBytes: number
  #pieces: Buffer[] = []
  #size = 0
  #need = LENGTH_BYTES

  constructor (maxFrameBytes: number) { this.#maxFrameBytes = maxFrameBytes }

  /** Bytes held that are not yet a whole frame. */
  get pending (): number { return this.#size }

  push (bytes: Uint8Array): void {
    this.#pieces.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
    this.#size += bytes.byteLength
  }

  /** The next whole frame, or undefined until more bytes come. Throws ProtocolError on a malformed one. */
  next (): Frame | undefined {
    if (this.#size < this.#need) return undefined
    if (this.#need === LENGTH_BYTES) {
      this.#need = LENGTH_BYTES + this.#frameLength()
      if (this.#size < this.#need) return undefined
    }
    const bytes = this.#take(this.#need)
    this.#need = LENGTH_BYTES
    return decode(bytes)
  }

  #frameLength (): number {
    if ((this.#pieces[0]?.length ?? 0) < LENGTH_BYTES) this.#pieces = [Buffer.concat(this.#pieces)]
    const length = this.#pieces[0]?.readUInt32BE(0) ?? 0
    if (length < HEAD_BYTES || length > this.#maxFrameBytes) {
      throw new ProtocolError(`frame of ${length} bytes; allowed are ${HEAD_BYTES} to ${this.#maxFrameBytes}`)
    }
    return length
  }

  #take (count: number): Buffer {
    const first = this.#pieces[0]
    if (first === undefined || first.length < count) {
      const joined = Buffer.concat(this.#pieces)
      this.#pieces = [joined]
      return this.#take(count)
    }
    if (first.length === count) this.#pieces.shift()
    else this.#pieces[0] = first.subarray(count)
    this.#size -= count
    return first.subarray(0, count)
  }
}

function decode (bytes: Buffer): Frame {
  const jsonBytes = bytes.readUInt32BE(9)
  const jsonEnd = LENGTH_BYTES + HEAD_BYTES + jsonBytes
  if (jsonEnd > bytes.length) throw new ProtocolError(`frame says ${jsonBytes} bytes of JSON but ends before`)
  // Copied, so that one small piece of media does not keep a whole read buffer alive.
  const media = jsonEnd === bytes.length ? NO_MEDIA : new Uint8Array(bytes.subarray(jsonEnd))
  return {
    kind: bytes.readUInt8(4),
    task: bytes.readUInt32BE(5),
    header: parse(bytes, jsonEnd),
    media,
    bytes: bytes.length
  }
}

function parse (bytes: Buffer, end: number): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8', LENGTH_BYTES + HEAD_BYTES, end))
  } catch {
    throw new ProtocolError('frame header is not JSON')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError('frame header is not a JSON object')
  }
  return value as Record<string, unknown>
}
