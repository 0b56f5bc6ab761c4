import { randomBytes } from 'node:crypto'
import { open, truncate } from 'node:fs/promises'

/** Bytes that one `spend` frees. */
const PIECE = 16 * 1024

/** A file that reserves disk space, freed piece by piece when the disk is full. */
export class DiskReserve {
  readonly #path: string
  readonly #most: number
  #bytes = 0

  constructor (path: string, most: number) {
    this.#path = path
    this.#most = most
  }

  /** Grows the file to its full size, as far as free disk space allows. */
  async fill (): Promise<void> {
    if (this.#bytes >= this.#most) return
    try {
      const file = await open(this.#path, 'a', 0o600)
      try {
        const { size } = await file.stat()
        // Random bytes, since a compressing file system would reserve no space for zeros.
        if (size < this.#most) await file.appendFile(randomBytes(this.#most - size))
        await file.datasync()
      } finally {
        this.#bytes = (await file.stat()).size
        await file.close()
      }
    } catch { /* The disk is full, so the reserve stays smaller. */ }
  }

  /** Frees a piece of the reserve. False once the reserve is used up. */
  async spend (): Promise<boolean> {
    if (this.#bytes === 0) return false
    this.#bytes = Math.max(0, this.#bytes - PIECE)
    return await truncate(this.#path, this.#bytes).then(() => true, () => false)
  }
}
