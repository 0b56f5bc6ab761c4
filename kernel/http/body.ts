import type { Readable } from 'node:stream'
import { kernelError } from '../api/errors.js'

const FIRST_BYTES = 16 * 1024

/**
 * Reads a request body whole. Its pieces are copied into one growing buffer and not kept: a body sent in
 * crumbs of a few bytes would otherwise cost a hundred times its size. `done` gets `payload_too_large` as
 * soon as more than `limit` bytes have come (the rest is let go by), `invalid_request` when the client
 * breaks off.
 */
export function collectBody (
  source: Readable, limit: number, done: (error: Error | null, body?: Buffer) => void
): void {
  let body = Buffer.allocUnsafe(Math.min(FIRST_BYTES, limit))
  let length = 0
  const finish = (error: Error | null): void => {
    source.off('data', onData).off('end', onEnd).off('error', onError)
    // A late error of a request that is over must not be unhandled.
    source.on('error', () => {})
    if (error === null) done(null, body.subarray(0, length))
    else done(error)
  }
  const onData = (piece: Buffer): void => {
    const needed = length + piece.byteLength
    if (needed > limit) {
      finish(kernelError('payload_too_large', `The body is larger than ${limit} bytes.`,
        { limit_bytes: limit }))
      return
    }
    if (needed > body.byteLength) {
      const wanted = Math.max(needed, 2 * body.byteLength)
      body = grown(body, length, Math.min(limit, wanted))
    }
    piece.copy(body, length)
    length = needed
  }
  const onEnd = (): void => { finish(null) }
  const onError = (): void => {
    finish(kernelError('invalid_request', 'The body ended early.',
      { issues: [{ path: '', message: 'the body ended early' }] }))
  }
  source.on('data', onData).on('end', onEnd).on('error', onError)
}

function grown (body: Buffer, length: number, size: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafe(size)
  body.copy(larger, 0, 0, length)
  return larger
}
