import { lstat, opendir } from 'node:fs/promises'
import type { Dirent } from 'node:fs'
import { join } from 'node:path'
import { eachOf } from './queues.js'
import { PathError, errnoOf, shown, filePathProblem, isOwnName } from './names.js'
import { isRealFolder } from './folders.js'
import { MOST_FILES } from './record.js'

/** Calls to the file system under way at once. */
const PARALLEL = 16

/** A regular file below a folder. `diskBytes`: what of it is on the disk; holes are not. */
export interface FoundFile {
  path: string
  size: number
  diskBytes: number
  links: number
  mtimeMs: number
}

/**
 * The files of a model's folder with their paths in it, sorted. svc's own files are left out. Throws
 * PathError for a link, a device, a socket or a pipe, for a name no manifest may have, and beyond 16,384
 * files or folders.
 */
export async function walkModel (folder: string): Promise<{ path: string, size: number }[]> {
  if (!await isRealFolder(folder)) throw new PathError(`${folder} does not exist`)
  const entries = await strictEntries(folder)
  const found: { path: string, size: number }[] = []
  await eachOf(entries, PARALLEL, async (path) => {
    const stats = await lstat(join(folder, path))
    if (!stats.isFile()) throw new PathError(`${join(folder, path)} was changed while it was looked at`)
    found.push({ path, size: stats.size })
  })
  return found.sort((a, b) => a.path < b.path ? -1 : 1)
}

/** Paths of all regular files; throws for what walkModel refuses. */
async function strictEntries (root: string): Promise<string[]> {
  const files: string[] = []
  const folders = ['']
  for (const folder of folders) {
    for await (const entry of await opendir(join(root, folder))) {
      if (folder === '' && entry.isFile() && isOwnName(entry.name)) continue
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      refuseEntry(root, path, entry)
      const list = entry.isFile() ? files : folders
      if (list.length >= MOST_FILES) {
        throw new PathError(`${root} holds more than ${MOST_FILES} files or folders`)
      }
      list.push(path)
    }
  }
  return files
}

function refuseEntry (root: string, path: string, entry: Dirent): void {
  if (!entry.isFile() && !entry.isDirectory()) {
    const kind = entry.isSymbolicLink() ? 'a link' : 'neither a file nor a folder'
    throw new PathError(`${shown(path)} in ${root} is ${kind}; a model has only files and folders`)
  }
  const problem = filePathProblem(path)
  if (problem !== null) throw new PathError(`${root} holds what no model may: ${problem}`)
}

/**
 * Every regular file below a folder, whatever its name, but for svc's own ones at the top. Links are not
 * followed; what cannot be read or is gone meanwhile counts as not there.
 */
export async function findFiles (root: string): Promise<FoundFile[]> {
  const paths: string[] = []
  const folders = ['']
  for (const folder of folders) {
    for (const entry of await entriesOf(join(root, folder))) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (entry.isDirectory()) folders.push(path)
      else if (entry.isFile() && (folder !== '' || !isOwnName(entry.name))) paths.push(path)
    }
  }
  const found: FoundFile[] = []
  await eachOf(paths, PARALLEL, async (path) => {
    const stats = await lstat(join(root, path)).catch(() => undefined)
    if (stats?.isFile() !== true) return
    const { size, blocks, nlink: links, mtimeMs } = stats
    found.push({ path, size, diskBytes: Math.min(size, blocks * 512), links, mtimeMs })
  })
  return found
}

async function entriesOf (folder: string): Promise<Dirent[]> {
  const entries: Dirent[] = []
  try {
    for await (const entry of await opendir(folder)) entries.push(entry)
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
  }
  return entries
}

/** Bytes of all regular files below a folder; links are not followed, an absent folder holds none. */
export async function sizeOf (folder: string): Promise<number> {
  return (await findFiles(folder)).reduce((sum, { size }) => sum + size, 0)
}
