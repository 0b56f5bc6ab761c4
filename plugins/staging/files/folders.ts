import { lstat, open, realpath, stat, statfs } from 'node:fs/promises'
import { basename, dirname, join, sep, resolve } from 'node:path'
import { PathError, errnoOf, orMissing } from './names.js'

/** True for a folder, false if missing. Throws PathError for anything else, even a link to a folder. */
export async function isRealFolder (path: string): Promise<boolean> {
  const stats = await orMissing(lstat(path), undefined)
  if (stats === undefined) return false
  if (stats.isDirectory()) return true
  throw new PathError(`${path} is ${stats.isSymbolicLink() ? 'a link' : 'a file'}, not a folder`)
}

/** fsync for a file, or for a folder and its entries. */
export async function sync (path: string): Promise<void> {
  const handle = await open(path, 'r')
  try { await handle.sync() } finally { await handle.close() }
}

/** Whether one folder contains the other, after resolving links. Neither has to exist. */
export async function overlap (a: string, b: string): Promise<boolean> {
  const [one, other] = (await Promise.all([realOf(a), realOf(b)]))
    .map((path) => path.endsWith(sep) ? path : `${path}${sep}`)
  return one!.startsWith(other!) || other!.startsWith(one!)
}

async function realOf (path: string): Promise<string> {
  return await realpath(path).catch(async (error: unknown) => {
    if (errnoOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    return join(await realOf(dirname(path)), basename(path))
  })
}

/** A file system. Paths with the same `device` can share files by hard links. */
export interface Volume { totalBytes: number, freeBytes: number, device: number }

/** The volume of a path or of its nearest existing parent. Free space is what unprivileged users can use. */
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
