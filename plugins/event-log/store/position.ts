import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../../../kernel/index.js'
import type { Gap } from './gaps.js'

/** State that the next start needs, and that the event files do not contain. */
export interface Position {
  /** No index up to this one may be assigned again. */
  readonly reserved: number
  /** Events that are not written yet, or null. */
  readonly missing: Gap | null
}

/** Fixed size of the file in bytes. */
const BYTES = 256

/** A small file that is overwritten in place, which works on a full disk too. */
export class PositionFile {
  /** The written value of `reserved`; 0 before the first write. */
  reserved = 0
  readonly #path: string
  readonly #logger: Logger
  #written: Position | null = null
  #warned = false

  constructor (path: string, logger: Logger) {
    this.#path = path
    this.#logger = logger
  }

  /** A missing, truncated or damaged file counts as empty. */
  async read (): Promise<Position> {
    try {
      const { reserved, missing } = JSON.parse(await readFile(this.#path, 'utf8')) as Position
      const isWhole = missing !== null && [missing.from, missing.to, missing.count].every(isIdx)
      if (isIdx(reserved)) return { reserved, missing: isWhole ? missing : null }
    } catch {}
    return { reserved: 0, missing: null }
  }

  /** Writes the position if it changed. Logs the first failure; the next call tries again. */
  async keep (position: Position): Promise<void> {
    if (isDeepStrictEqual(position, this.#written)) return
    try {
      await this.#write(position)
      this.#written = position
      this.reserved = position.reserved
    } catch (error) {
      const { message } = error as Error
      if (!this.#warned) this.#logger.warn({ message }, 'the position of the event log cannot be saved')
      this.#warned = true
    }
  }

  async #write (position: Position): Promise<void> {
    const file = await open(this.#path, constants.O_RDWR | constants.O_CREAT, 0o600)
    try {
      await file.write(Buffer.from(`${JSON.stringify(position).padEnd(BYTES - 1)}\n`), 0, BYTES, 0)
      await file.datasync()
    } finally {
      await file.close()
    }
  }
}

const isIdx = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
