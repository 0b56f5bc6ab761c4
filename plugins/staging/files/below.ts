import { constants, existsSync } from 'node:fs'
import { lstat, mkdir, open, readdir, rmdir, unlink } from 'node:fs/promises'
import type { Dirent } from 'node:fs'
import { basename, join } from 'node:path'
import { PathError, errnoOf } from './errors.js'

/** A folder that is open: `path` leads to it whatever is renamed meanwhile, `name` is for messages. */
export interface OpenFolder { path: string, name: string, close (): Promise<void> }

/** Linux resolves paths below an open folder. Elsewhere every step is checked just before it is used. */
const HANDLES = existsSync('/proc/self/fd') ? '/proc/self/fd' : undefined

/** A path to what a handle has open, for calls that take no handle; `path` where the system has none. */
export const pathOf = ({ fd }: { fd: number }, path: string): string =>
  HANDLES === undefined ? path : `${HANDLES}/${fd}`

/** Opens a folder, made for the owner alone with `make`. Throws PathError for a link or anything else. */
async function openFolder (path: string, name: string, make: boolean): Promise<OpenFolder> {
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
  if (make) {
    await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
      if (errnoOf(error) !== 'EEXIST') throw error
    })
  }
  const handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch(async (error: unknown) => {
    if (!['ELOOP', 'ENOTDIR'].includes(errnoOf(error) ?? '')) throw error
    const link = (await lstat(path).catch(() => undefined))?.isSymbolicLink() === true
    throw new PathError(`${name} is ${link ? 'a link' : 'a file'}, a folder is needed here`)
  })
  return { path: pathOf(handle, path), name, close: async () => { await handle.close() } }
}

/**
 * Opens a folder by the steps from `root` down to it, none of which may be a link, `root` neither; lends it
 * to `work`. With `make` missing folders are made, but not what holds `root`. Throws PathError, or the
 * system's error.
 */
export async function inFolder<T> (
  root: string, steps: readonly string[], make: boolean, work: (folder: OpenFolder) => Promise<T>
): Promise<T> {
  let folder = await openFolder(root, root, make)
  try {
    for (const step of steps) {
      const inner = await openFolder(join(folder.path, step), join(folder.name, step), make)
      await folder.close()
      folder = inner
    }
    return await work(folder)
  } finally {
    await folder.close()
  }
}

/** Whether an entry at a path below a folder is to go; of a folder: whether to look into it. */
export type Doomed = (path: string, entry: Dirent) => boolean

/**
 * Removes what `doomed` names below a folder, and folders it names that are empty then; links go, what they
 * point to stays. Resolves with whether nothing is left; an absent folder has nothing.
 */
export async function removeBelow (root: string, doomed: Doomed): Promise<boolean> {
  return await inFolder(root, [], false, async (folder) => await removeIn(folder, '', doomed))
    .catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return true
      throw error
    })
}

async function removeIn (folder: OpenFolder, below: string, doomed: Doomed): Promise<boolean> {
  let empty = true
  for (const entry of await readdir(folder.path, { withFileTypes: true })) {
    const full = join(folder.path, entry.name)
    const go = doomed(`${below}${entry.name}`, entry)
    if (go && !entry.isDirectory()) await unlink(full)
    else if (go && await clear(full, join(folder.name, entry.name))) await rmdir(full)
    else empty = false
  }
  return empty

  async function clear (path: string, name: string): Promise<boolean> {
    const inner = await openFolder(path, name, false)
    try {
      return await removeIn(inner, `${below}${basename(path)}/`, doomed)
    } finally {
      await inner.close()
    }
  }
}
