import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import type { Gap } from './gaps.js'

/** What the store must know at its next start and cannot take from the files of events. */
export interface Position {
  /** No index up to this one may be given again. */
  readonly reserved: number
  /** Events that are not written yet; null when there are none. */
  readonly missing: Gap | null
}

/** Bytes of the file, whatever it says. */
const BYTES = 256

/** Reads the file. One that is missing, cut short or damaged counts as empty. */
export async function readPosition (path: string): Promise<Position> {
  try {
    const { reserved, missing } = JSON.parse(await readFile(path, 'utf8')) as Position
    const isWhole = missing !== null && [missing.from, missing.to, missing.count].every(isIdx)
    if (isIdx(reserved)) return { reserved, missing: isWhole ? missing : null }
  } catch {}
  return { reserved: 0, missing: null }
}

/** Overwrites the file in place, which works on a full disk too. Rejects when the disk does. */
export async function writePosition (path: string, position: Position): Promise<void> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    await file.write(Buffer.from(`${JSON.stringify(position).padEnd(BYTES - 1)}\n`), 0, BYTES, 0)
    await file.datasync()
  } finally {
    await file.close()
  }
}

const isIdx = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
