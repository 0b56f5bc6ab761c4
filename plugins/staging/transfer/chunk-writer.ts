import type { FileHandle } from 'node:fs/promises'
import type { Work } from './chunks.js'
import { openInside } from '../files/open.js'

/** Bytes gathered before they are hashed and written: keeps one turn of the event loop at about 1 ms. */
export const GATHER_BYTES = 1024 * 1024

/** Buffers that are used again, so that a transfer's memory stays flat. */
export class BufferPool {
  readonly #free: Buffer[] = []

  take (): Buffer { return this.#free.pop() ?? Buffer.allocUnsafeSlow(GATHER_BYTES) }

  give (buffer: Buffer): void { this.#free.push(buffer) }
}

/**
 * Gathers the bytes of one chunk, hashes and writes them. Has two buffers: while one is written, the other
 * one takes what the network brings.
 */
export class ChunkWriter {
  readonly #work: Work
  readonly #file: FileHandle
  readonly #pool: BufferPool
  readonly #written: (bytes: number) => Promise<void> | undefined
  #front: Buffer
  #back: Buffer | undefined
  #filled = 0
  /** Bytes handed to writes. */
  #queued: number
  #writing: Promise<void> | undefined

  /** `written` is told of bytes on disk; the next write waits for what it returns. */
  constructor (
    work: Work, file: FileHandle, pool: BufferPool, written: (bytes: number) => Promise<void> | undefined
  ) {
    this.#work = work
    this.#file = file
    this.#pool = pool
    this.#written = written
    this.#front = pool.take()
    this.#queued = work.done
  }

  /** Bytes of the chunk still to come. */
  get room (): number { return this.#work.size - this.#queued - this.#filled }

  /** Takes bytes, at most `room`. Throws the error of an earlier write. */
  async add (bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + GATHER_BYTES - this.#filled)
      this.#front.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === GATHER_BYTES) await this.#flush()
    }
  }

  /** Writes what is gathered and gives the buffers back. Throws the error of a write. */
  async end (): Promise<void> {
    try {
      await this.#flush()
      await this.#writing
    } finally {
      this.#pool.give(this.#front)
      if (this.#back !== undefined) this.#pool.give(this.#back)
    }
  }

  async #flush (): Promise<void> {
    await this.#writing
    if (this.#filled === 0) return
    const full = this.#front
    this.#writing = this.#write(full.subarray(0, this.#filled))
    // It is awaited by the next flush; until then its failure is no unhandled one.
    this.#writing.catch(() => {})
    this.#filled = 0
    if (this.room === 0) return
    this.#front = this.#back ?? this.#pool.take()
    this.#back = full
  }

  async #write (bytes: Buffer): Promise<void> {
    const writing = writeAll(this.#file, bytes, this.#work.chunk.start + this.#queued)
    this.#queued += bytes.length
    this.#work.verifier.update(bytes)
    await writing
    this.#work.done += bytes.length
    await this.#written(bytes.length)
  }
}

async function writeAll (file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at, position + at)
    at += bytesWritten
  }
}

interface Entry { file: Promise<FileHandle>, users: number }

/** The files of an incoming folder, each open once while any of its chunks is in flight. */
export class OpenFiles {
  readonly #folder: string
  readonly #open = new Map<string, Entry>()

  constructor (folder: string) { this.#folder = folder }

  /** Lends a file, made when absent, to `work`. Throws the error of opening it, or what `work` throws. */
  async use<T> (path: string, work: (file: FileHandle) => Promise<T>): Promise<T> {
    let entry = this.#open.get(path)
    if (entry === undefined) {
      entry = { file: openInside(this.#folder, path, 'update'), users: 0 }
      this.#open.set(path, entry)
    }
    entry.users++
    try {
      return await work(await entry.file)
    } finally {
      if (--entry.users === 0) {
        this.#open.delete(path)
        await entry.file.then(async (file) => { await file.close() }, () => {})
      }
    }
  }
}
