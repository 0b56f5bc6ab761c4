import { createHash, type Hash } from 'node:crypto'
import { basename, dirname } from 'node:path'
import { CHUNK_BYTES, type ManifestFile } from '../types.js'
import { openInside, readPieces } from './open.js'

const READ_BYTES = 1024 * 1024

export interface HashOptions {
  /** Stops hashing between two reads; the promise then rejects with the signal's reason. */
  signal?: AbortSignal
  /** Called with the number of bytes of each read. */
  onBytes?: (bytes: number) => void
}

/** Hashes a regular file in pieces of 1 MiB. Throws PathError for other files, and if it gets shorter. */
export async function hashFile (
  path: string, { signal, onBytes }: HashOptions = {}
): Promise<Omit<ManifestFile, 'path'>> {
  const file = await openInside(dirname(path), basename(path), 'read')
  try {
    const { size } = await file.stat()
    const hash = new ChunkedHash()
    for await (const piece of readPieces(file, { start: 0, end: size }, READ_BYTES)) {
      signal?.throwIfAborted()
      hash.update(piece)
      onBytes?.(piece.length)
    }
    return { size, ...hash.end() }
  } finally { await file.close() }
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
