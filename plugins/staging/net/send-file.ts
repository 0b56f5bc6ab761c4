import type { RouteRequest, SvcError } from '../../../kernel/index.js'
import { openInside } from '../files/index.js'
import { readPieces } from './pieces.js'
import { readRange } from './range.js'
import type { ByteRange } from './range.js'
import type { Uplink } from './uplink.js'

/** A file as it can be sent: all of it, or what has been verified so far. */
export interface SendableFile {
  /** The model's folder. */
  folder: string
  path: string
  size: number
  sha256: string
  /** Whether all bytes of a range are there. */
  has (range: ByteRange): boolean
}

export interface SendParts {
  uplink: Uplink
  error (reason: 'range_not_satisfiable' | 'chunk_not_here', message: string): SvcError
}

/**
 * Answers with a file or a range of it. The ETag is the hash, so a range of another version is never glued to
 * this one (If-Range). Throws `range_not_satisfiable`, `chunk_not_here`, PathError.
 */
export async function sendFile (request: RouteRequest, file: SendableFile, parts: SendParts): Promise<void> {
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
      `${file.path}: bytes ${range.start} to ${range.end} are not here yet.`)
  }
  const handle = await openInside(file.folder, file.path, 'read')
  try {
    const stream = request.open({
      status: asked === 'whole' ? 200 : 206,
      contentType: 'application/octet-stream',
      headers: {
        etag,
        'accept-ranges': 'bytes',
        'cache-control': 'no-transform',
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
  } finally {
    await handle.close()
  }
}
