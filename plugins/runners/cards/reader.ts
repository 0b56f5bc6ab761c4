/** Reads the header of a large file through a small window; every length is checked against the file. */
import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'

/** A model file is broken, or no engine here can run it. */
export class CardError extends Error { override readonly name = 'CardError' }

const TEXT_BYTES = 4 * 1024 * 1024
/** Bytes per read; the reader reads this many bytes again after each skipped block. */
const WINDOW = 32 * 1024

/**
 * Opens a regular file, passes it to `use`, and always closes it. @throws CardError if the path is a link or
 * not a regular file, or cannot be opened
 */
async function withFile<T> (path: string, use: (file: FileHandle, size: number) => Promise<T>): Promise<T> {
  // Opening a FIFO must not wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW
  let file: FileHandle
  try {
    file = await open(path, flags)
  } catch (error) {
    throw new CardError(`${basename(path)} cannot be opened: ${(error as Error).message}`, { cause: error })
  }
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw new CardError(`${basename(path)} is not a regular file`)
    return await use(file, stat.size)
  } finally {
    await file.close()
  }
}

/** Reads a whole text file. @throws CardError if the file is missing or larger than `limit` bytes */
export async function readText (path: string, limit = TEXT_BYTES): Promise<string> {
  return await withFile(path, async (file, size) => {
    if (size > limit) throw new CardError(`${basename(path)} has ${size} bytes, more than ${limit}`)
    return await file.readFile('utf8').catch((error: unknown) => {
      throw new CardError(`${basename(path)} cannot be read: ${(error as Error).message}`, { cause: error })
    })
  })
}

/** A position in a file and the values read there. Numbers are little-endian. */
export class HeaderReader {
  readonly size: number
  readonly #file: FileHandle
  readonly #name: string
  readonly #window = Buffer.alloc(WINDOW)
  #limit: number
  #start = 0
  #filled = 0
  #position = 0

  constructor (file: FileHandle, name: string, size: number) {
    this.#file = file
    this.#name = name
    this.size = size
    this.#limit = size
  }

  get position (): number { return this.#position }

  get left (): number { return this.size - this.#position }

  /** Makes reads past this byte fail from now on, which limits the work that a hostile file can cause. */
  limit (bytes: number): void { this.#limit = Math.min(this.size, bytes) }

  /** Fails with the file and the position. @throws CardError always */
  fail (what: string): never {
    throw new CardError(`${this.#name} is broken: ${what} (at byte ${this.#position} of ${this.size})`)
  }

  /** Waits until `bytes` (at most 4 KiB or to the end) are in the window; returns undefined if they are. */
  ready (bytes: number): Promise<void> | undefined {
    const end = this.#start + this.#filled
    if (this.#position >= this.#start && Math.min(this.#position + bytes, this.size) <= end) return undefined
    return this.#fill()
  }

  async #fill (): Promise<void> {
    const { bytesRead } = await this.#file.read(this.#window, 0, WINDOW, this.#position)
    this.#start = this.#position
    this.#filled = bytesRead
  }

  /** Moves to a position. @throws CardError if that is outside the file or the limit */
  seek (position: number): void {
    if (!Number.isSafeInteger(position) || position < 0 || position > this.#limit) this.#outside(position)
    this.#position = position
  }

  skip (bytes: number): void { this.seek(this.#position + bytes) }

  #outside (position: number): never {
    if (position <= this.size) this.fail(`its header is longer than ${this.#limit} bytes`)
    this.fail(`it ends before byte ${position}`)
  }

  #take (bytes: number): number {
    const at = this.#position - this.#start
    this.seek(this.#position + bytes)
    if (at < 0 || at + bytes > this.#filled) this.fail('it ends early')
    return at
  }

  // Call `ready` before using these five methods.
  u8 (): number { return this.#window[this.#take(1)] as number }
  u32 (): number { return this.#window.readUInt32LE(this.#take(4)) }
  i32 (): number { return this.#window.readInt32LE(this.#take(4)) }
  u64 (): bigint { return this.#window.readBigUInt64LE(this.#take(8)) }
  f64 (): number { return this.#window.readDoubleLE(this.#take(8)) }

  /** The next bytes, copied. @throws CardError before allocating memory if the file has fewer bytes */
  async bytes (count: number): Promise<Buffer> {
    const from = this.#position
    this.skip(count)
    const at = from - this.#start
    if (at >= 0 && at + count <= this.#filled) return Buffer.from(this.#window.subarray(at, at + count))
    const bytes = Buffer.alloc(count)
    const { bytesRead } = await this.#file.read(bytes, 0, count, from)
    if (bytesRead < count) this.fail('it ends early')
    return bytes
  }

  async text (count: number): Promise<string> { return (await this.bytes(count)).toString('utf8') }
}

/** Opens a file, passes a reader to `read`, and always closes it. @throws CardError */
export async function withReader<T> (path: string, read: (r: HeaderReader) => Promise<T>): Promise<T> {
  return await withFile(path, async (file, size) => await read(new HeaderReader(file, basename(path), size)))
}
