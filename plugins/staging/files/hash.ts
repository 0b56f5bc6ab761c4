import { createHash, type Hash } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { CHUNK_BYTES, type ManifestFile } from '../types.js'
import { PathError, errnoOf } from './names.js'

const READ_BYTES = 1024 * 1024

export interface HashOptions {
  /** Stops hashing between two reads; the promise then rejects with the signal's reason. */
  signal?: AbortSignal
  onBytes?: (bytes: number) => void
}

/** Hashes a regular file in pieces of 1 MiB. Throws PathError for other files, and if the file changes. */
export async function hashFile (
  path: string, { signal, onBytes }: HashOptions = {}
): Promise<Omit<ManifestFile, 'path'>> {
  // O_NONBLOCK, because opening a pipe must not wait for its writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(path, flags).catch((error: unknown) => {
    if (errnoOf(error) === 'ELOOP') throw new PathError(`${path} is a link; links are not followed`)
    throw error
  })
  try {
    const before = await file.stat()
    if (!before.isFile()) throw new PathError(`${path} is not a regular file`)
    const hash = new ChunkedHash()
    const buffer = Buffer.allocUnsafeSlow(Math.min(READ_BYTES, before.size))
    let size = 0
    while (size < before.size) {
      signal?.throwIfAborted()
      const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, before.size - size), size)
      if (bytesRead === 0) break
      hash.update(buffer.subarray(0, bytesRead))
      size += bytesRead
      onBytes?.(bytesRead)
    }
    const after = await file.stat()
    if (size !== before.size || after.size !== before.size || after.mtimeMs !== before.mtimeMs) {
      throw new PathError(`${path} changed while it was read; retry when no program writes to it`)
    }
    return { size, ...hash.end() }
  } finally {
    await file.close()
  }
}

export class ChunkedHash {
  readonly #whole = createHash('sha256')
  readonly #chunks: string[] = []
  /** Hash of the current chunk; undefined in the first chunk, whose hash equals that of the file so far. */
  #chunk: Hash | undefined
  #inChunk = 0

  update (bytes: Uint8Array): void {
    for (let rest = bytes; rest.length > 0;) {
      const part = rest.subarray(0, CHUNK_BYTES - this.#inChunk)
      this.#whole.update(part)
      this.#chunk?.update(part)
      this.#inChunk += part.length
      if (this.#inChunk === CHUNK_BYTES) this.#endChunk()
      rest = rest.subarray(part.length)
    }
  }

  end (): Pick<ManifestFile, 'sha256' | 'chunkSha256'> {
    if (this.#inChunk > 0) this.#endChunk()
    return { sha256: this.#whole.digest('hex'), chunkSha256: this.#chunks }
  }

  #endChunk (): void {
    this.#chunks.push((this.#chunk ?? this.#whole.copy()).digest('hex'))
    this.#chunk = createHash('sha256')
    this.#inChunk = 0
  }
}
