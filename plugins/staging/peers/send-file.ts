import { delay, type RouteRequest, type SvcError, type Clock } from '../../../kernel/index.js'
import { openInside, readPieces } from '../files/open.js'
import { KeyedLock } from '../files/queues.js'
import type { ByteRange } from '../transfer/types.js'

/** A complete file, or the verified part of one. */
export interface SendableFile {
  folder: string, path: string, size: number, sha256: string
  has (range: ByteRange): boolean
}

export interface SendParts {
  uplink: UploadLimiter
  error (reason: 'range_not_satisfiable' | 'chunk_not_here', message: string): SvcError
}

/** Sends a file or a range of it. Throws `range_not_satisfiable`, `chunk_not_here`, PathError. */
export async function sendFile (request: RouteRequest, file: SendableFile, parts: SendParts): Promise<void> {
  // The hash of the file, so that If-Range never mixes two versions.
  const etag = `"${file.sha256}"`
  const { headers, signal } = request
  const sameVersion = headers['if-range'] === undefined || headers['if-range'] === etag
  const asked = sameVersion ? readRange(headers['range'], file.size) : 'whole'
  if (asked === 'unsatisfiable') {
    const error = parts.error('range_not_satisfiable', `${file.path} has ${file.size} bytes.`)
    error.headers['content-range'] = `bytes */${file.size}`
    throw error
  }
  const range = asked === 'whole' ? { start: 0, end: file.size } : asked
  if (!file.has(range)) {
    throw parts.error('chunk_not_here',
      `${file.path}: this node does not have bytes ${range.start} to ${range.end} yet.`)
  }
  const handle = await openInside(file.folder, file.path, 'read')
  try {
    const stream = request.open({
      status: asked === 'whole' ? 200 : 206,
      contentType: 'application/octet-stream',
      headers: {
        etag, 'accept-ranges': 'bytes', 'cache-control': 'no-transform',
        'content-length': String(range.end - range.start),
        ...asked === 'whole'
          ? {} : { 'content-range': `bytes ${range.start}-${range.end - 1}/${file.size}` }
      }
    })
    if (stream.closed) return
    for await (const piece of readPieces(handle, range)) {
      await parts.uplink.take(piece.byteLength, signal)
      await stream.write(piece)
    }
  } finally { await handle.close() }
}

/** Parses a Range header (RFC 9110 14.2) for a file of `size` bytes; malformed or multiple ones: `whole`. */
export function readRange (header: string | undefined, size: number): ByteRange | 'whole' | 'unsatisfiable' {
  const found = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '')
  if (found === null) return 'whole'
  const [, first = '', last = ''] = found
  if (first === '' && last === '') return 'whole'
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size }
  }
  const start = Number(first)
  const end = last === '' ? size : Math.min(Number(last) + 1, size)
  if (last !== '' && Number(last) < start) return 'whole'
  return start >= size ? 'unsatisfiable' : { start, end }
}

/** Limits the upload rate of models, shared by all receivers in order of arrival. */
export class UploadLimiter {
  readonly #bytesPerSecond: number | null
  readonly #clock: Clock
  readonly #turns = new KeyedLock()
  /** Monotonic time in ms at which all granted bytes will have been sent. */
  #freeAt = 0

  /** `bytesPerSecond` is null for no limit. */
  constructor (bytesPerSecond: number | null, clock: Clock) {
    this.#bytesPerSecond = bytesPerSecond
    this.#clock = clock
  }

  /** Resolves when `bytes` may be sent. Rejects with the signal's reason without using up any rate. */
  async take (bytes: number, signal: AbortSignal): Promise<void> {
    const [rate, clock] = [this.#bytesPerSecond, this.#clock]
    if (rate === null) return
    await this.#turns.run('uplink', async () => {
      const wait = this.#freeAt - clock.mono()
      if (wait > 0) await delay(clock, wait, signal)
      this.#freeAt = Math.max(clock.mono(), this.#freeAt) + bytes / rate * 1000
    }, signal)
  }
}
