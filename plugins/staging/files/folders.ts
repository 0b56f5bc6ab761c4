import { lstat, mkdir, open, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { PathError, errnoOf } from './errors.js'

/**
 * Whether a folder is there; false when nothing is. Throws PathError when something else is in its place,
 * a link to a folder too.
 */
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
