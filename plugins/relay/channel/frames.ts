import { FRAME_BYTES } from './transport.js'

/** Kinds of frames. A frame has a kind (one byte), a stream id (four bytes, big-endian) and a payload. */
export const kinds = { open: 1, data: 2, credit: 3, end: 4, reset: 5, alive: 6 } as const

const HEAD_BYTES = 5

/** Maximum stream bytes in one frame, small enough for streams to take turns. */
export const DATA_BYTES = 32 * 1024

export type Frame =
  /** Opens a stream. Only the device does so; each stream's number is one above the previous one. */
  | { readonly kind: 'open', readonly stream: number }
  | { readonly kind: 'data', readonly stream: number, readonly bytes: Uint8Array }
  /** Sent when the reader has consumed `bytes`, so that the other side may send as many again. */
  | { readonly kind: 'credit', readonly stream: number, readonly bytes: number }
  | { readonly kind: 'end', readonly stream: number }
  | { readonly kind: 'reset', readonly stream: number }
  /** A keep-alive for the connection; it belongs to no stream, so `stream` is 0. */
  | { readonly kind: 'alive', readonly stream: number }

/** Thrown if the other side broke the protocol; the caller must then end the connection. */
export class ProtocolError extends Error { override readonly name = 'ProtocolError' }

export function writeFrame (frame: Frame): Uint8Array {
  const rest = frame.kind === 'data' ? frame.bytes.length : frame.kind === 'credit' ? 4 : 0
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + rest)
  bytes.writeUInt8(kinds[frame.kind], 0)
  bytes.writeUInt32BE(frame.stream, 1)
  if (frame.kind === 'data') bytes.set(frame.bytes, HEAD_BYTES)
  if (frame.kind === 'credit') bytes.writeUInt32BE(frame.bytes, HEAD_BYTES)
  return bytes
}

const names = new Map(Object.entries(kinds).map(([name, kind]) => [kind as number, name as Frame['kind']]))

/** Parses a frame. Throws ProtocolError. */
export function readFrame (input: Uint8Array): Frame {
  const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength)
  if (bytes.length < HEAD_BYTES || bytes.length > FRAME_BYTES) {
    throw new ProtocolError(`a frame of ${bytes.length} bytes`)
  }
  const kind = names.get(bytes[0]!)
  const stream = bytes.readUInt32BE(1)
  const rest = bytes.length - HEAD_BYTES
  if (kind === 'data' && rest > 0 && rest <= DATA_BYTES) {
    return { kind, stream, bytes: bytes.subarray(HEAD_BYTES) }
  }
  if (kind === 'credit' && rest === 4) return { kind, stream, bytes: bytes.readUInt32BE(HEAD_BYTES) }
  if (kind === undefined || kind === 'data' || kind === 'credit' || rest > 0) {
    throw new ProtocolError(`a frame of kind ${bytes[0]} with ${rest} bytes`)
  }
  return { kind, stream }
}
