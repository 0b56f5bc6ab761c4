import { constants, existsSync, type Dirent } from 'node:fs'
import { lstat, open, rename, rm, unlink, mkdir, readdir, rmdir, type FileHandle } from 'node:fs/promises'
import { join, basename } from 'node:path'
import { PathError, errnoOf, filePathProblem, isOwnName, orMissing } from './names.js'
import type { ByteRange } from '../transfer/types.js'

/** `create` makes a new file for reading and writing; `update` also opens an existing one. */
export type OpenMode = 'read' | 'create' | 'update'

// O_NONBLOCK, because opening a pipe must not wait for its other end.
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK
const FLAGS: Record<OpenMode, number> = {
  read: constants.O_RDONLY | SAFE,
  create: constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | SAFE,
  update: constants.O_RDWR | constants.O_CREAT | SAFE
}

/**
 * Opens a file of a model by its manifest path, never outside `root`, the model's folder. When writing,
 * creates missing folders including `root`, but not the parent of `root`. Throws PathError for an invalid
 * path, for a symbolic link or special file on the path, and when writing to a file with several hard links.
 * Passes system errors on (`ENOENT`, `EEXIST` with `create`, `ENOSPC`).
 */
export async function openInside (root: string, path: string, mode: OpenMode): Promise<FileHandle> {
  const problem = filePathProblem(path)
  if (problem !== null) throw new PathError(problem)
  return await parentOf(root, path, mode !== 'read', async (folder, name) => await openIn(folder, name, mode))
}

/** Opens one of svc's own files. Throws like `openInside`. */
export async function openSvcFile (root: string, name: string, mode: OpenMode): Promise<FileHandle> {
  if (!isOwnName(name)) throw new PathError(`${name} is not one of svc's own files`)
  return await inFolder(root, [], mode !== 'read', async (folder) => await openIn(folder, name, mode))
}

/** Reads one of svc's own files. Throws like `openInside`, and PathError above `mostBytes`. */
export async function readOwn (root: string, name: string, mostBytes: number): Promise<string> {
  const file = await openSvcFile(root, name, 'read')
  try {
    const { size } = await file.stat()
    if (size > mostBytes) throw new PathError(`${join(root, name)} has more than ${mostBytes} bytes`)
    return await file.readFile('utf8')
  } finally { await file.close() }
}

/** Replaces a file atomically; `write` may keep the handle. Returns its result. Throws like `openInside`. */
export async function replaceSvcFile<T> (
  root: string, name: string, write: (file: FileHandle) => Promise<T>
): Promise<T> {
  const draft = `${name}.tmp`
  return await inFolder(root, [], true, async (folder) => {
    // Remove a leftover or planted draft file, since it must not be written to.
    await rm(join(folder.path, draft), { force: true })
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

/** Like `replaceSvcFile`, but takes a string, and syncs it to disk before the promise resolves. */
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
      throw new PathError(`${shown} has several hard links; writing would change the other files too`)
    }
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

async function refuseIrregular (path: string, shown: string): Promise<void> {
  const stats = await orMissing(lstat(path), undefined)
  if (stats === undefined || stats.isFile()) return
  throw new PathError(`${shown} is ${stats.isSymbolicLink() ? 'a link' : 'not a regular file'}`)
}

const PIECE_BYTES = 256 * 1024

/** Reads a range in pieces, each in a new buffer, because the reader may still use earlier pieces. */
export async function * readPieces (
  handle: FileHandle, { start, end }: ByteRange, pieceBytes = PIECE_BYTES
): AsyncGenerator<Uint8Array> {
  for (let at = start; at < end;) {
    const buffer = Buffer.allocUnsafeSlow(Math.min(pieceBytes, end - at))
    const { bytesRead } = await handle.read(buffer, 0, buffer.byteLength, at)
    if (bytesRead === 0) {
      throw new PathError(`a file changed while it was read: it ended at ${at}, ${end - at} bytes early`)
    }
    yield buffer.subarray(0, bytesRead)
    at += bytesRead
  }
}

/** An open folder. `path` stays valid even if the folder is renamed; `name` is for messages. */
export interface OpenFolder { path: string, name: string, close (): Promise<void> }

/** Linux resolves paths relative to an open folder. On other systems each step is checked just before use. */
const HANDLES = existsSync('/proc/self/fd') ? '/proc/self/fd' : undefined

/** A path to an open file for calls that take no handle; `path` itself on systems without /proc/self/fd. */
export const pathOf = ({ fd }: { fd: number }, path: string): string =>
  HANDLES === undefined ? path : `${HANDLES}/${fd}`

/** Opens a folder; with `make`, creates a missing one, mode 0700. Throws PathError for a link or a file. */
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
    throw new PathError(`${name} is ${link ? 'a link' : 'a file'}, not a folder`)
  })
  return { path: pathOf(handle, path), name, close: async () => { await handle.close() } }
}

/**
 * Opens the folder at `steps` below `root` for `work`. Neither `root` nor a step may be a symbolic link. With
 * `make`, creates missing folders, but not the parent of `root`. Throws PathError or a system error.
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
  } finally { await folder.close() }
}

export async function parentOf<T> (
  root: string, path: string, make: boolean, work: (folder: OpenFolder, name: string) => Promise<T>
): Promise<T> {
  const steps = path.split('/')
  const name = steps.pop()!
  return await inFolder(root, steps, make, async (folder) => await work(folder, name))
}

/** Whether to remove an entry below a folder; for a folder, whether to descend into it. */
export type ShouldRemove = (path: string, entry: Dirent) => boolean

/**
 * Removes the entries below `root` that `doomed` accepts; folders among them only once they are empty.
 * Removes symbolic links, not their targets. Resolves to true if `root` is then empty or missing.
 */
export async function removeBelow (root: string, doomed: ShouldRemove): Promise<boolean> {
  return await orMissing(
    inFolder(root, [], false, async (folder) => await removeIn(folder, '', doomed)), true)
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
    } finally { await inner.close() }
  }
}
