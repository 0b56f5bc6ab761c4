import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { CHUNK_BYTES } from '../types.js'
import type { HubFile } from './types.js'

/** Hashes of a file while it arrives: of the whole, of each chunk, and as a git blob where that is needed. */
export class FileHasher {
  readonly #file: HubFile
  readonly #whole = createHash('sha256')
  readonly #blob: Hash | undefined
  readonly #chunks: string[] = []
  /** The hash of the current chunk; undefined in the first, which is the whole up to there. */
  #chunk: Hash | undefined
  #inChunk = 0

  constructor (file: HubFile) {
    this.#file = file
    if (file.sha256 === null) this.#blob = createHash('sha1').update(`blob ${file.size}\0`)
  }

  /** Takes the next bytes of the file. */
  update (bytes: Uint8Array): void {
    for (let rest = bytes; rest.length > 0;) {
      const part = rest.subarray(0, CHUNK_BYTES - this.#inChunk)
      this.#whole.update(part)
      this.#blob?.update(part)
      this.#chunk?.update(part)
      this.#inChunk += part.length
      if (this.#inChunk === CHUNK_BYTES) this.#closeChunk()
      rest = rest.subarray(part.length)
    }
  }

  /** The hashes, and whether they are what the hub names. To be called once, at the end. */
  end (): { sha256: string, chunkSha256: string[], right: boolean } {
    if (this.#inChunk > 0) this.#closeChunk()
    const sha256 = this.#whole.digest('hex')
    const right = this.#blob === undefined
      ? sha256 === this.#file.sha256
      : this.#blob.digest('hex') === this.#file.gitSha1
    return { sha256, chunkSha256: this.#chunks, right }
  }

  #closeChunk (): void {
    this.#chunks.push((this.#chunk ?? this.#whole.copy()).digest('hex'))
    this.#chunk = createHash('sha256')
    this.#inChunk = 0
  }
}
