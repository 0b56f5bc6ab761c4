import type { ServerResponse } from 'node:http'
import { kernelError } from '../api/errors.js'
import { encodedHeaders } from './error-body.js'
import type { Clock } from '../api/clock.js'
import type { StreamHead, StreamWriter } from '../api/plugin.js'

/** Bytes per write; small, so that a slow reader shows progress within the stall limit. */
const PIECE_BYTES = 16 * 1024

async function inPieces (
  data: Uint8Array | string, write: (piece: Uint8Array) => Promise<void> | undefined
): Promise<void> {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) await write(bytes.subarray(at, at + PIECE_BYTES))
}

/**
 * Writes a stream with backpressure: a write resolves once the socket can take more. Rejects with
 * `slow_consumer` if the reader stalls for `stallMs`, `cancelled` if the reader has left.
 */
export function openStream (
  raw: ServerResponse, head: StreamHead, options: { clock: Clock, stallMs: number, onClose: () => void }
): StreamWriter {
  raw.writeHead(head.status ?? 200, {
    'content-type': head.contentType, 'cache-control': 'no-store', 'x-accel-buffering': 'no',
    ...encodedHeaders(head.headers ?? {})
  })
  raw.flushHeaders()
  let ended = false
  const gone = (): boolean => raw.destroyed || raw.writableEnded
  return {
    write (bytes) {
      if (ended || gone()) return Promise.reject(kernelError('cancelled', 'The client disconnected.'))
      if (bytes.length > PIECE_BYTES) return inPieces(bytes, (piece) => this.write(piece))
      return bytes.length === 0 || raw.write(bytes) ? undefined : drained(raw, options)
    },
    async end () {
      if (ended || gone()) return
      ended = true
      await new Promise<void>((resolve) => { raw.once('close', resolve); raw.end('', 'utf8', resolve) })
      options.onClose()
    },
    cut () {
      ended = true
      raw.destroy()
      options.onClose()
    },
    get closed () { return ended || gone() }
  }
}

function drained (raw: ServerResponse, options: { clock: Clock, stallMs: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (settle: () => void): void => {
      stop()
      raw.off('drain', onDrain)
      raw.off('close', onClose)
      settle()
    }
    const onDrain = (): void => { finish(resolve) }
    const onClose = (): void => {
      finish(() => { reject(kernelError('cancelled', 'The client disconnected.')) })
    }
    const stop = options.clock.after(options.stallMs, () => {
      finish(() => {
        reject(kernelError('slow_consumer', `The client read no data for ${options.stallMs / 1000} seconds.`))
      })
    })
    raw.on('drain', onDrain)
    raw.on('close', onClose)
  })
}
