import { constants } from 'node:fs'
import { lstat, mkdir, open, realpath } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { PathError, errnoOf } from './errors.js'
import { isRealFolder } from './folders.js'
import { filePathProblem } from './paths.js'

/**
 * `read`: an existing file. `create`: a new file, for reading and writing. `update`: the same, but an
 * existing file is taken as it is.
 */
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
  const target = join(root, path)
  await enter(root, path.split('/').slice(0, -1), mode !== 'read')
  await refuseOutside(root, dirname(target))
  await refuseIrregular(target)
  const file = await open(target, FLAGS[mode], 0o600).catch((error: unknown) => {
    if (errnoOf(error) === 'ELOOP') throw new PathError(`${target} is a link; links are not followed`)
    throw error
  })
  try {
    const stats = await file.stat()
    if (!stats.isFile()) throw new PathError(`${target} is not a regular file`)
    if (mode !== 'read' && stats.nlink > 1) {
      throw new PathError(`${target} has further hard links; writing would change those files too`)
    }
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Checks the folders from the root down to a file, one by one, and makes those that are missing. */
async function enter (root: string, segments: readonly string[], make: boolean): Promise<void> {
  let folder = root
  for (const segment of ['', ...segments]) {
    folder = join(folder, segment)
    if (await isRealFolder(folder) || !make) continue
    await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      if (errnoOf(error) !== 'EEXIST') throw error
    })
    // Somebody else may have made it meanwhile, and not as a folder.
    await isRealFolder(folder)
  }
}

async function refuseOutside (root: string, folder: string): Promise<void> {
  const [outer, inner] = await Promise.all([realpath(root), realpath(folder)])
  if (inner === outer || inner.startsWith(outer + sep)) return
  throw new PathError(`${folder} lies outside ${root}`)
}

async function refuseIrregular (path: string): Promise<void> {
  const stats = await lstat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return undefined
    throw error
  })
  if (stats === undefined || stats.isFile()) return
  throw new PathError(`${path} is ${stats.isSymbolicLink() ? 'a link' : 'not a regular file'}`)
}
