import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { CHUNK_BYTES } from '../types.js'
import { PathError, errnoOf } from './names.js'
import { EMPTY_SHA256 } from './record.js'

const READ_BYTES = 1024 * 1024

/** What hashing a file found. */
export interface FileHashes { size: number, sha256: string, chunkSha256: string[] }

/** How a file is hashed. */
export interface HashOptions {
  /** Stops between two reads; the promise rejects with its reason. */
  signal?: AbortSignal
  /** Told after each read how many bytes it brought. */
  onBytes?: (bytes: number) => void
}

/**
 * Size and hashes of a regular file, read once in pieces of 1 MiB with the event loop free in between.
 * Throws PathError for a link or anything else that is no regular file, and when the file changes meanwhile.
 */
export async function hashFile (path: string, options: HashOptions = {}): Promise<FileHashes> {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(path, flags).catch((error: unknown) => {
    if (errnoOf(error) === 'ELOOP') throw new PathError(`${path} is a link; links are not followed`)
    throw error
  })
  try {
    const before = await file.stat()
    if (!before.isFile()) throw new PathError(`${path} is not a regular file`)
    const hashes = await hashHandle(file, before.size, options)
    const after = await file.stat()
    if (hashes.size !== before.size || after.size !== before.size || after.mtimeMs !== before.mtimeMs) {
      throw new PathError(`${path} was changed while it was read; try again when nothing writes to it`)
    }
    return hashes
  } finally {
    await file.close()
  }
}

async function hashHandle (file: FileHandle, size: number, options: HashOptions): Promise<FileHashes> {
  if (size === 0) return { size, sha256: EMPTY_SHA256, chunkSha256: [] }
  const buffer = Buffer.allocUnsafeSlow(Math.min(READ_BYTES, size))
  const whole = createHash('sha256')
  // A file of one chunk has one hash for both.
  const chunks = size > CHUNK_BYTES ? new ChunkHashes() : undefined
  let at = 0
  while (at < size) {
    options.signal?.throwIfAborted()
    // Never across the end of a chunk, also after a read that brought less than was asked for.
    const length = Math.min(buffer.length, size - at, CHUNK_BYTES - at % CHUNK_BYTES)
    const { bytesRead } = await file.read(buffer, 0, length, at)
    if (bytesRead === 0) break
    const bytes = buffer.subarray(0, bytesRead)
    whole.update(bytes)
    chunks?.update(bytes)
    at += bytesRead
    options.onBytes?.(bytesRead)
  }
  const sha256 = whole.digest('hex')
  return { size: at, sha256, chunkSha256: chunks?.end() ?? [sha256] }
}

/** Hashes of consecutive chunks; what it is given lies within one chunk. */
class ChunkHashes {
  readonly #done: string[] = []
  #hash: Hash = createHash('sha256')
  #bytes = 0

  update (bytes: Uint8Array): void {
    this.#hash.update(bytes)
    this.#bytes += bytes.length
    if (this.#bytes < CHUNK_BYTES) return
    this.#done.push(this.#hash.digest('hex'))
    this.#hash = createHash('sha256')
    this.#bytes = 0
  }

  end (): string[] {
    return this.#bytes === 0 ? this.#done : [...this.#done, this.#hash.digest('hex')]
  }
}
