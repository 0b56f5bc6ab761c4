import { constants, existsSync } from 'node:fs'
import { lstat, open, rename, unlink, mkdir, readdir, rmdir } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join, basename } from 'node:path'
import type { Dirent } from 'node:fs'
import { PathError, errnoOf, filePathProblem, isOwnName } from './names.js'

/** `create`: a new file, for reading and writing. `update`: the same, or an existing one as it is. */
export type OpenMode = 'read' | 'create' | 'update'

// O_NONBLOCK: opening a pipe must not wait for its other end.
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK
const FLAGS: Record<OpenMode, number> = {
  read: constants.O_RDONLY | SAFE,
  create: constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | SAFE,
  update: constants.O_RDWR | constants.O_CREAT | SAFE
}

/**
 * Opens a file of a model by its path in the manifest, never outside `root`, the model's folder. When
 * writing, missing folders are made, `root` too, but not what holds it. Throws PathError for a path that is
 * not allowed, a link or anything else unexpected on the way, and for writing to a file that has further
 * hard links. Failures of the system (`ENOENT`, `EEXIST` with `create`, `ENOSPC`) are thrown as they are.
 */
export async function openInside (root: string, path: string, mode: OpenMode): Promise<FileHandle> {
  const problem = filePathProblem(path)
  if (problem !== null) throw new PathError(problem)
  return await parentOf(root, path, mode !== 'read',
    async (folder, name) => await openIn(folder, name, mode))
}

/** Opens one of svc's own files in a model's folder. Throws as `openInside`. */
export async function openSvcFile (root: string, name: string, mode: OpenMode): Promise<FileHandle> {
  if (!isOwnName(name)) throw new PathError(`${name} is none of svc's own files`)
  return await inFolder(root, [], mode !== 'read', async (folder) => await openIn(folder, name, mode))
}

/** The text of one of svc's own files. Throws as `openInside`, and PathError for one of more bytes. */
export const readOwn = async (root: string, name: string, mostBytes: number): Promise<string> =>
  await readAll(await openSvcFile(root, name, 'read'), join(root, name), mostBytes)

/** The text of any other file. Throws as `readOwn`. */
export const readInside = async (root: string, path: string, mostBytes: number): Promise<string> =>
  await readAll(await openInside(root, path, 'read'), join(root, path), mostBytes)

async function readAll (file: FileHandle, name: string, mostBytes: number): Promise<string> {
  try {
    if ((await file.stat()).size > mostBytes) throw new PathError(`${name} has more than ${mostBytes} bytes`)
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

/**
 * Puts one of svc's own files into a model's folder: at any moment the old one or the new one is there.
 * Resolves with what `write` resolves with, which may go on using the handle. Throws as `openInside`.
 */
export async function replaceSvcFile<T> (
  root: string, name: string, write: (file: FileHandle) => Promise<T>
): Promise<T> {
  const draft = `${name}.tmp`
  return await inFolder(root, [], true, async (folder) => {
    // Whatever was left or planted under that name is not written to.
    await unlink(join(folder.path, draft)).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error
    })
    const file = await openIn(folder, draft, 'create')
    try {
      const written = await write(file)
      await rename(join(folder.path, draft), join(folder.path, name))
      return written
    } catch (error) {
      await file.close()
      throw error
    }
  })
}

/** The same with a text, which is on the disk when this resolves. */
export async function putOwnText (root: string, name: string, text: string): Promise<void> {
  await replaceSvcFile(root, name, async (file) => {
    await file.writeFile(text)
    await file.sync()
    await file.close()
  })
}

async function openIn (folder: OpenFolder, name: string, mode: OpenMode): Promise<FileHandle> {
  const [path, shown] = [join(folder.path, name), join(folder.name, name)]
  await refuseIrregular(path, shown)
  const file = await open(path, FLAGS[mode], 0o600).catch((error: unknown) => {
    if (errnoOf(error) === 'ELOOP') throw new PathError(`${shown} is a link; links are not followed`)
    throw error
  })
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new PathError(`${shown} is not a regular file`)
    if (mode !== 'read' && stats.nlink > 1) {
      throw new PathError(`${shown} has further hard links; writing would change those files too`)
    }
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

async function refuseIrregular (path: string, shown: string): Promise<void> {
  const stats = await lstat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  })
  if (stats === undefined || stats.isFile()) return
  throw new PathError(`${shown} is ${stats.isSymbolicLink() ? 'a link' : 'not a regular file'}`)
}

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

/** The same with the folder that holds a path, and the last name of it. */
export async function parentOf<T> (
  root: string, path: string, make: boolean, work: (folder: OpenFolder, name: string) => Promise<T>
): Promise<T> {
  const steps = path.split('/')
  const name = steps.pop()!
  return await inFolder(root, steps, make, async (folder) => await work(folder, name))
}

/** Whether an entry at a path below a folder is to go; of a folder: whether to look into it. */
export type ShouldRemove = (path: string, entry: Dirent) => boolean

/**
 * Removes what `doomed` names below a folder, and folders it names that are empty then; links go, what they
 * point to stays. Resolves with whether nothing is left; an absent folder has nothing.
 */
export async function removeBelow (root: string, doomed: ShouldRemove): Promise<boolean> {
  return await inFolder(root, [], false, async (folder) => await removeIn(folder, '', doomed))
    .catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return true
      throw error
    })
}

async function removeIn (folder: OpenFolder, below: string, doomed: ShouldRemove): Promise<boolean> {
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
