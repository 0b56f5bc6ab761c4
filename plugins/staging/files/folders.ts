import { lstat, mkdir, open, realpath, stat, statfs } from 'node:fs/promises'
import { basename, dirname, join, sep, resolve } from 'node:path'
import { PathError, errnoOf } from './names.js'

/** Whether a folder is there. Throws PathError for anything else in its place, a link to a folder too. */
export async function isRealFolder (path: string): Promise<boolean> {
  const stats = await lstat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  })
  if (stats === undefined) return false
  if (stats.isDirectory()) return true
  throw new PathError(`${path} is ${stats.isSymbolicLink() ? 'a link' : 'a file'}, a folder is needed here`)
}

/**
 * Makes a folder for the owner alone, and those above it that are missing; one that is there may be a link to
 * a folder. Fails where `mkdir -p` of Node goes round for ever: below a folder that takes nothing, as /proc.
 */
export async function makeFolders (path: string): Promise<void> {
  const make = async (): Promise<void> => { await mkdir(path, { mode: 0o700 }) }
  try {
    await make().catch(async (error: unknown) => {
      if (errnoOf(error) !== 'ENOENT' || dirname(path) === path) throw error
      await makeFolders(dirname(path))
      await make()
    })
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST' || !(await stat(path)).isDirectory()) throw error
  }
}

/** Makes what was written to a file, or the names in a folder, survive a power failure. */
export async function sync (path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Whether two folders, which need not exist yet, are one, or one lies in the other, links resolved. */
export async function overlap (a: string, b: string): Promise<boolean> {
  const [one, other] = (await Promise.all([realOf(a), realOf(b)]))
    .map((path) => path.endsWith(sep) ? path : `${path}${sep}`)
  return one!.startsWith(other!) || other!.startsWith(one!)
}

/** Where a path leads: links resolved as far as it exists. */
async function realOf (path: string): Promise<string> {
  return await realpath(path).catch(async (error: unknown) => {
    if (errnoOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    return join(await realOf(dirname(path)), basename(path))
  })
}

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
