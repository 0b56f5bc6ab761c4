import { stat, statfs } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { errnoOf } from './errors.js'
import { findFiles } from './walk.js'

/** A file system. Two paths with the same `device` are on one and can share files by hard links. */
export interface Volume { totalBytes: number, freeBytes: number, device: number }

/** The volume of a path or of its nearest parent that exists. Free is what an ordinary user may write. */
export async function volumeOf (path: string): Promise<Volume> {
  const full = resolve(path)
  try {
    const [{ blocks, bavail, bsize }, { dev }] = await Promise.all([statfs(full), stat(full)])
    return { totalBytes: blocks * bsize, freeBytes: bavail * bsize, device: dev }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || full === dirname(full)) throw error
    return await volumeOf(dirname(full))
  }
}

/** Bytes of all regular files below a folder; links are not followed, an absent folder holds none. */
export async function sizeOf (folder: string): Promise<number> {
  return (await findFiles(folder)).reduce((sum, { size }) => sum + size, 0)
}
