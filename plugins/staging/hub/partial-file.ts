import type { FileHandle } from 'node:fs/promises'
import { openInside } from '../files/index.js'
import { HubError } from './errors.js'
import { FileHasher } from './hasher.js'
import type { HubFile } from './types.js'

/** Bytes are gathered to this before they are hashed and written. */
const PIECE_BYTES = 1024 * 1024

/** A file on disk that grows to what the hub has; everything in it is hashed. */
export class PartialFile {
  readonly #file: HubFile
  readonly #handle: FileHandle
  readonly #buffer: Buffer
  #hasher: FileHasher
  #gathered = 0
  #written = 0

  private constructor (file: HubFile, handle: FileHandle) {
    this.#file = file
    this.#handle = handle
    this.#hasher = new FileHasher(file)
    this.#buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, file.size))
  }

  /**
   * Opens a file in a folder, and hashes what an earlier run left there. One that is too long is emptied.
   * Throws HubError `disk_full` or `unwritable`, PathError, or the signal's reason.
   */
  static async open (folder: string, file: HubFile, signal: AbortSignal): Promise<PartialFile> {
    const handle = await onDisk(file, () => openInside(folder, file.path, 'update'))
    const partial = new PartialFile(file, handle)
    try {
      await partial.#readKept(signal)
      return partial
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  /** Bytes that are there: the offset to go on at, once flushed. */
  get length (): number { return this.#written + this.#gathered }

  /** Adds the next bytes; resolves with the number that went to the disk now. */
  async append (bytes: Uint8Array): Promise<number> {
    const before = this.#written
    for (let rest = bytes; rest.length > 0;) {
      const part = rest.subarray(0, this.#buffer.length - this.#gathered)
      this.#buffer.set(part, this.#gathered)
      this.#gathered += part.length
      if (this.#gathered === this.#buffer.length) await this.flush()
      rest = rest.subarray(part.length)
    }
    return this.#written - before
  }

  /** Writes what was gathered; resolves with its bytes. */
  async flush (): Promise<number> {
    const bytes = this.#buffer.subarray(0, this.#gathered)
    this.#hasher.update(bytes)
    await onDisk(this.#file, async () => {
      for (let done = 0; done < bytes.length;) {
        const at = this.#written + done
        done += (await this.#handle.write(bytes, done, bytes.length - done, at)).bytesWritten
      }
    })
    this.#written += bytes.length
    this.#gathered = 0
    return bytes.length
  }

  /** Empties the file. */
  async restart (): Promise<void> {
    await onDisk(this.#file, () => this.#handle.truncate(0))
    this.#hasher = new FileHasher(this.#file)
    this.#gathered = 0
    this.#written = 0
  }

  /** The hashes of the complete, flushed file. To be called once, or again after `restart`. */
  hashes (): ReturnType<FileHasher['end']> { return this.#hasher.end() }

  close (): Promise<void> { return this.#handle.close() }

  async #readKept (signal: AbortSignal): Promise<void> {
    const { size } = await this.#handle.stat()
    if (size > this.#file.size) { await this.restart(); return }
    while (this.#written < size) {
      signal.throwIfAborted()
      const { bytesRead } = await this.#handle.read(this.#buffer, 0, this.#buffer.length, this.#written)
      if (bytesRead === 0) break
      this.#hasher.update(this.#buffer.subarray(0, bytesRead))
      this.#written += bytesRead
    }
  }
}

/** Runs what writes, and names a full disk and a folder that cannot be written. */
async function onDisk<T> (file: HubFile, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      throw new HubError('disk_full', `no space left on the disk for ${file.path}; what came so far is kept`,
        { cause: error })
    }
    if (code === 'EROFS' || code === 'EACCES' || code === 'EPERM') {
      throw new HubError('unwritable', `${file.path} cannot be written (${code})`, { cause: error })
    }
    throw error
  }
}
