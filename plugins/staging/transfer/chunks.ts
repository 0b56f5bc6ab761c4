import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { shown } from '../files/names.js'
import type { ManifestFile, ModelManifest } from '../types.js'

/** A range of a file that is fetched and verified as a unit; `end` is exclusive. */
export interface Chunk {
  file: Pick<ManifestFile, 'path' | 'size'>
  index: number
  start: number
  end: number
  verifier (): Verifier
}

export interface Verifier {
  update (bytes: Uint8Array): void
  /** Whether the bytes have the expected hash. Call it once, after the last byte. */
  right (): boolean
}

export interface ChunkTable {
  readonly count: number
  /** Looks up a chunk. Throws RangeError for an invalid number. */
  at (chunk: number): Chunk
  /** The first chunk of a file and the number of its chunks. Throws RangeError for an unknown path. */
  of (path: string): { first: number, count: number }
}

/** The chunks of a checked manifest. A lookup takes time logarithmic in the number of files. */
export function chunksOf (manifest: ModelManifest): ChunkTable {
  const { files, chunkBytes } = manifest
  /** firsts[i] is the first chunk of file i; the last entry is the total. */
  const firsts = new Float64Array(files.length + 1)
  const byPath = new Map<string, number>()
  files.forEach((file, i) => {
    firsts[i + 1] = firsts[i]! + file.chunkSha256.length
    byPath.set(file.path, i)
  })
  const count = firsts[files.length]!
  return {
    count,
    at (chunk) {
      if (!Number.isInteger(chunk) || chunk < 0 || chunk >= count) {
        throw new RangeError(`there is no chunk ${chunk}; the manifest has ${count}`)
      }
      const at = lastNotAbove(firsts, chunk)
      const file = files[at]!
      const index = chunk - firsts[at]!
      const start = index * chunkBytes
      const end = Math.min(start + chunkBytes, file.size)
      return { file, index, start, end, verifier: () => sha256Verifier(file.chunkSha256[index]!) }
    },
    of (path) {
      const at = byPath.get(path)
      if (at === undefined) throw new RangeError(`the manifest has no file ${shown(path)}`)
      return { first: firsts[at]!, count: firsts[at + 1]! - firsts[at]! }
    }
  }
}

/** The last index with a value of at most `value`; earlier indices with the same value are empty files. */
function lastNotAbove (sorted: Float64Array, value: number): number {
  let low = 0
  let high = sorted.length - 1
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (sorted[middle]! <= value) low = middle
    else high = middle - 1
  }
  return low
}

function sha256Verifier (wanted: string): Verifier {
  const hash = createHash('sha256')
  return { update: (bytes) => { hash.update(bytes) }, right: () => hash.digest('hex') === wanted }
}

/** A chunk in progress, which another source can continue at the current offset. */
export interface Work {
  readonly number: number
  readonly chunk: Chunk
  readonly size: number
  /** Verifier that has hashed the first `done` bytes. */
  readonly verifier: Verifier
  done: number
  readonly givers: Set<string>
  /** True if the first bytes are from an earlier run, so no source is to blame for a wrong hash. */
  readonly kept: boolean
}

export function beginWork (number: number, chunk: Chunk, kept?: { verifier: Verifier, done: number }): Work {
  return {
    number,
    chunk,
    size: chunk.end - chunk.start,
    verifier: kept?.verifier ?? chunk.verifier(),
    done: kept?.done ?? 0,
    givers: new Set(),
    kept: kept !== undefined
  }
}

/** Bytes to gather before hashing and writing, so that one event loop turn takes about 1 ms. */
export const GATHER_BYTES = 1024 * 1024

export class ChunkWriter {
  readonly #work: Work
  readonly #file: FileHandle
  readonly #written: (bytes: number) => Promise<void> | undefined
  readonly #buffer: Buffer
  #filled = 0

  /** `written` receives the number of bytes written; the next write waits for the promise it returns. */
  constructor (work: Work, file: FileHandle, written: (bytes: number) => Promise<void> | undefined) {
    this.#work = work
    this.#file = file
    this.#written = written
    this.#buffer = Buffer.allocUnsafeSlow(Math.min(GATHER_BYTES, work.size - work.done))
  }

  /** Adds at most the missing bytes of the chunk. Throws write errors. */
  async add (bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + this.#buffer.length - this.#filled)
      this.#buffer.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === this.#buffer.length) await this.flush()
    }
  }

  /** Writes the gathered bytes. Throws write errors. */
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
