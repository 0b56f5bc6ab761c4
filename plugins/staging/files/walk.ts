import { lstat, opendir, readdir } from 'node:fs/promises'
import type { Dirent } from 'node:fs'
import { join } from 'node:path'
import { eachOf } from './queues.js'
import { PathError, errnoOf, shown, filePathProblem, isOwnName } from './names.js'
import { isRealFolder } from './folders.js'
import { MOST_FILES } from './record.js'

const PARALLEL = 16

/** A regular file below a folder. `diskBytes` does not count the holes of a sparse file. */
export interface FoundFile { path: string, size: number, diskBytes: number, links: number, mtimeMs: number }

/**
 * The files of a model's folder with relative paths, sorted, without svc's own files. Throws PathError for a
 * symbolic link, device, socket or pipe, for an invalid path, and beyond 16,384 files or folders.
 */
export async function walkModel (folder: string): Promise<{ path: string, size: number }[]> {
  if (!await isRealFolder(folder)) throw new PathError(`${folder} does not exist`)
  const paths: string[] = []
  let folders = 0
  for await (const { path, entry } of below(folder, (error) => { throw error })) {
    refuseEntry(folder, path, entry)
    if (entry.isFile()) paths.push(path)
    else folders++
    // The limit on folders includes the model folder itself.
    if (paths.length > MOST_FILES || folders >= MOST_FILES) {
      throw new PathError(`${folder} has more than ${MOST_FILES} files or folders`)
    }
  }
  const found = await statFiles(folder, paths)
  if (found.length < paths.length) throw new PathError(`${folder} changed while it was read`)
  return found.map(({ path, size }) => ({ path, size })).sort((a, b) => a.path < b.path ? -1 : 1)
}

function refuseEntry (root: string, path: string, entry: Dirent): void {
  if (!entry.isFile() && !entry.isDirectory()) {
    const kind = entry.isSymbolicLink() ? 'a link' : 'neither a file nor a folder'
    throw new PathError(`${shown(path)} in ${root} is ${kind}; models may have only files and folders`)
  }
  const problem = filePathProblem(path)
  if (problem !== null) throw new PathError(`${root} has an invalid path: ${problem}`)
}

/** All readable regular files below a folder, except svc's own files at its top level. */
export async function findFiles (root: string): Promise<FoundFile[]> {
  const paths: string[] = []
  const unreadable = (error: unknown): void => { if (errnoOf(error) === undefined) throw error }
  for await (const { path, entry } of below(root, unreadable)) if (entry.isFile()) paths.push(path)
  return await statFiles(root, paths)
}

/** Leaves out paths that are no longer regular files. */
async function statFiles (root: string, paths: readonly string[]): Promise<FoundFile[]> {
  const found: FoundFile[] = []
  await eachOf(paths, PARALLEL, async (path) => {
    const stats = await lstat(join(root, path)).catch(() => undefined)
    if (stats?.isFile() !== true) return
    const { size, blocks, nlink: links, mtimeMs } = stats
    found.push({ path, size, diskBytes: Math.min(size, blocks * 512), links, mtimeMs })
  })
  return found
}

/** Files below a folder; does not follow links, and skips svc's own files at the top level. */
async function * below (
  root: string, unreadable: (error: unknown) => void
): AsyncGenerator<{ path: string, entry: Dirent }> {
  const folders = ['']
  for (const folder of folders) {
    try {
      for await (const entry of await opendir(join(root, folder))) {
        if (folder === '' && entry.isFile() && isOwnName(entry.name)) continue
        const path = folder === '' ? entry.name : `${folder}/${entry.name}`
        if (entry.isDirectory()) folders.push(path)
        yield { path, entry }
      }
    } catch (error) { unreadable(error) }
  }
}

export const sizeOf = async (folder: string): Promise<number> => bytesOf(await findFiles(folder))

export const bytesOf = (files: readonly { size: number }[]): number =>
  files.reduce((sum, { size }) => sum + size, 0)

/** Bytes that removing the files would free; a file with other hard links keeps its blocks. */
export const freeable = (files: readonly FoundFile[]): number =>
  bytesOf(files.filter(({ links }) => links <= 1))

/** Latest mtime in ms of a folder itself and of svc's own files in it, which `findFiles` does not return. */
export async function newest (folder: string): Promise<number> {
  const names = (await readdir(folder).catch(() => [])).filter(isOwnName)
  const stats = [folder, ...names.map((name) => join(folder, name))].map(async (path) =>
    (await lstat(path).catch(() => undefined))?.mtimeMs ?? 0)
  return Math.max(...await Promise.all(stats))
}
