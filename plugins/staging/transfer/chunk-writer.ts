import type { FileHandle } from 'node:fs/promises'
import type { Work } from './chunks.js'

/** Bytes gathered before they are hashed and written: keeps one turn of the event loop at about 1 ms. */
export const GATHER_BYTES = 1024 * 1024

/** Gathers the bytes of one chunk, hashes and writes them. */
export class ChunkWriter {
  readonly #work: Work
  readonly #file: FileHandle
  readonly #written: (bytes: number) => Promise<void> | undefined
  readonly #buffer: Buffer
  #filled = 0

  /** `written` is told of bytes on disk; the next bytes wait for what it returns. */
  constructor (work: Work, file: FileHandle, written: (bytes: number) => Promise<void> | undefined) {
    this.#work = work
    this.#file = file
    this.#written = written
    this.#buffer = Buffer.allocUnsafeSlow(Math.min(GATHER_BYTES, work.size - work.done))
  }

  /** Takes bytes, no more than the chunk lacks. Throws the error of a write. */
  async add (bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + this.#buffer.length - this.#filled)
      this.#buffer.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === this.#buffer.length) await this.flush()
    }
  }

  /** Writes what is gathered. Throws the error of a write. */
  async flush (): Promise<void> {
    const { chunk, verifier, done } = this.#work
    const bytes = this.#buffer.subarray(0, this.#filled)
    this.#filled = 0
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } =
        await this.#file.write(bytes, at, bytes.length - at, chunk.start + done + at)
      at += bytesWritten
    }
    if (bytes.length === 0) return
    verifier.update(bytes)
    this.#work.done += bytes.length
    await this.#written(bytes.length)
  }
}
