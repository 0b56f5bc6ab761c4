import { readdir, rmdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Dirent } from 'node:fs'
import { removeBelow } from './below.js'
import { foldersAbove, isOwnName } from './paths.js'
import { readRecord } from './record.js'
import type { CopyRecord } from '../types.js'

/** Whether an entry at the top of a folder is one of svc's own files. */
export const isOwnFile = (path: string, entry: Dirent): boolean => entry.isFile() && isOwnName(path)

/** Says of what lies in a copy whether its record names it. */
function namedBy (record: CopyRecord | null): (path: string, entry: Dirent) => boolean {
  const files = new Set(record?.manifest.files.map(({ path }) => path))
  const folders = new Set([...files].flatMap(foldersAbove))
  return (path, entry) => entry.isDirectory() ? folders.has(path) : entry.isFile() && files.has(path)
}

/** The first thing in a copy that svc did not write: its record does not name it. */
export async function strangerIn (folder: string, record: CopyRecord): Promise<string | undefined> {
  const named = namedBy(record)
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    const path = relative(folder, join(entry.parentPath, entry.name))
    if (!named(path, entry) && !isOwnFile(path, entry)) return path
  }
  return undefined
}

/**
 * Removes of a folder what svc wrote: what its record names, and svc's own files, the record last. What
 * somebody else put there stays, and so does the folder then. Resolves with whether all of it is gone.
 */
export async function removeCopy (folder: string): Promise<boolean> {
  await removeBelow(folder, namedBy(await readRecord(folder)))
  const empty = await removeBelow(folder, isOwnFile)
  if (empty) await rmdir(folder)
  return empty
}

/** Removes from a transfer's folder all but svc's own files and those at these paths. */
export async function keepOnly (folder: string, paths: ReadonlySet<string>): Promise<void> {
  await removeBelow(folder, (path, entry) => !isOwnFile(path, entry) && !(entry.isFile() && paths.has(path)))
}
