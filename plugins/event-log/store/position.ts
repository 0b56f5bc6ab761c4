import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import type { Logger } from '../../../kernel/index.js'
import type { Gap } from './gaps.js'

/** What the store must know at its next start and cannot take from the files of events. */
export interface Kept {
  /** No index up to this one may be given again. */
  readonly reserved: number
  /** Events that are not written yet; null when there are none. */
  readonly missing: Gap | null
}

/** Keeps it in a small file that is overwritten in place, which works on a full disk too. */
export interface Position {
  readonly found: Kept
  /** `reserved` as it is in the file now. */
  readonly reserved: number
  /** Writes the file. A failure is logged once, and the next call tries again. */
  keep (kept: Kept): Promise<void>
  close (): Promise<void>
}

const BYTES = 256
const NOTHING: Kept = { reserved: 0, missing: null }

/** Opens the file, and makes it when it is missing; where that fails nothing is kept. */
export async function openPosition (path: string, logger: Logger): Promise<Position> {
  let warned = false
  const warn = (error: unknown): null => {
    const { message } = error as Error
    if (!warned) logger.warn({ path, error: message }, 'the position of the event log is not kept')
    warned = true
    return null
  }
  const file = await openFile(path).catch(warn)
  const found = file === null ? NOTHING : await readKept(file).catch(() => NOTHING)
  let written = JSON.stringify(found)
  let reserved = found.reserved
  return {
    found,
    get reserved () { return reserved },
    async keep (kept) {
      const text = JSON.stringify(kept)
      if (file === null || text === written) return
      try {
        await write(file, text)
        written = text
        reserved = kept.reserved
      } catch (error) {
        warn(error)
      }
    },
    close: async () => { await file?.close() }
  }
}

async function openFile (path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r+')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const file = await open(path, 'wx+', 0o600)
  // Takes its room on the disk while there is some.
  await write(file, JSON.stringify(NOTHING)).catch(() => {})
  return file
}

async function write (file: FileHandle, text: string): Promise<void> {
  await file.write(Buffer.from(`${text.padEnd(BYTES - 1)}\n`), 0, BYTES, 0)
  await file.datasync()
}

/** Reads the file; a new or damaged one counts as empty. */
async function readKept (file: FileHandle): Promise<Kept> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(BYTES), 0, BYTES, 0)
  const value = JSON.parse(buffer.toString('utf8', 0, bytesRead)) as unknown
  const { reserved, missing } = (value ?? {}) as { reserved?: unknown, missing?: unknown }
  if (!isIdx(reserved)) return NOTHING
  return { reserved, missing: isGap(missing) ? missing : null }
}

const isIdx = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

const isGap = (value: unknown): value is Gap => {
  const { from, to, count } = (value ?? {}) as Record<keyof Gap, unknown>
  return isIdx(from) && isIdx(to) && isIdx(count) && from <= to
}
