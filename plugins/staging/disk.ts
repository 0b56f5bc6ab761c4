import type { Dirent } from 'node:fs'
import { lstat, readdir, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'

/** A staged copy as it lies on disk. */
export interface StagedCopy {
  modelId: string
  directory: string
  sizeBytes: number
  lastUsedEpochSeconds: number
}

/** Touched while a copy is in use; its time is the last use. */
const LAST_USED = '.last_used'
const FOLDER = /^([A-Za-z0-9][A-Za-z0-9._-]*?)--([A-Za-z0-9][A-Za-z0-9._-]*)$/

/** The model id of a staging folder's name, or undefined when it is none. Pure. */
export function modelOf (folder: string): string | undefined {
  const match = FOLDER.exec(folder)
  return match === null ? undefined : `${match[1]!}/${match[2]!}`
}

/** Every staged copy below the root, newest used first. An absent root holds none. */
export async function stagedCopies (root: string): Promise<StagedCopy[]> {
  const entries = await list(root)
  const copies = await Promise.all(entries.map(async (entry) => {
    const modelId = entry.isDirectory() ? modelOf(entry.name) : undefined
    if (modelId === undefined) return []
    const directory = join(root, entry.name)
    const sizeBytes = await sizeOf(directory)
    const lastUsedEpochSeconds = await lastUse(directory)
    return [{ modelId, directory, sizeBytes, lastUsedEpochSeconds }]
  }))
  return copies.flat().sort((a, b) => b.lastUsedEpochSeconds - a.lastUsedEpochSeconds)
}

/** What a folder holds; an absent one holds nothing. */
async function list (folder: string): Promise<Dirent[]> {
  return await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
}

/** Bytes of all regular files below a folder; links are not followed. */
export async function sizeOf (folder: string): Promise<number> {
  let sum = 0
  for (const entry of await list(folder)) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) sum += await sizeOf(path)
    else if (entry.isFile() && entry.name !== LAST_USED) {
      sum += (await lstat(path).catch(() => ({ size: 0 }))).size
    }
  }
  return sum
}

async function lastUse (folder: string): Promise<number> {
  const { mtimeMs } = await stat(join(folder, LAST_USED)).catch(async () => await stat(folder))
  return Math.floor(mtimeMs / 1000)
}

/** Total and free bytes of the volume that holds a path (or its nearest parent that exists). */
export async function volumeOf (path: string): Promise<{ totalBytes: number, freeBytes: number }> {
  try {
    const { blocks, bavail, bsize } = await statfs(path)
    return { totalBytes: blocks * bsize, freeBytes: bavail * bsize }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || path === '/') throw error
    return await volumeOf(join(path, '..'))
  }
}
