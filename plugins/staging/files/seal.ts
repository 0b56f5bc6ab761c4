import { readdir, rmdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Dirent } from 'node:fs'
import { removeBelow, openInside } from './open.js'
import { eachOf } from './queues.js'
import { PathError, errnoOf, shown, foldersAbove, isOwnName } from './names.js'
import { sync } from './folders.js'
import { RECORD_FILE, readRecord, writeRecord } from './record.js'
import { findFiles, walkModel } from './walk.js'
import type { CopyRecord, ModelManifest } from '../types.js'

/** Files made durable at once: a journalling file system commits them together. */
const PARALLEL = 16

/** The first file of a manifest that is not among those found with its size; undefined when all are. */
export function missingFile (
  manifest: ModelManifest, found: readonly { path: string, size: number }[]
): string | undefined {
  const sizes = new Map(found.map(({ path, size }) => [path, size]))
  return manifest.files.find(({ path, size }) => sizes.get(path) !== size)?.path
}

/** The files in a folder. Throws PathError unless every file of the manifest is there with its size. */
export async function requireFiles (folder: string, manifest: ModelManifest): Promise<string[]> {
  const found = await walkModel(folder)
  const missing = missingFile(manifest, found)
  if (missing === undefined) return found.map(({ path }) => path)
  const actual = found.find(({ path }) => path === missing)?.size
  const wanted = manifest.files.find(({ path }) => path === missing)!.size
  throw new PathError(`${shown(missing)} in ${folder} should have ${wanted} bytes, ` +
    (actual === undefined ? 'but it is not there' : `it has ${actual}`))
}

/**
 * Makes a complete transfer ready to be published: nothing but the manifest's files in it, all of it on disk,
 * and as the last step the record instead of what the transfer kept there for itself. Any part may run again.
 */
export async function finalizeCopy (folder: string, record: CopyRecord): Promise<void> {
  await requireFiles(folder, record.manifest)
  const named = new Set(record.manifest.files.map(({ path }) => path))
  await keepOnly(folder, named)
  await eachOf([...named], PARALLEL, async (path) => { await syncInside(folder, path) })
  for (const inner of foldersOf(named)) await sync(join(folder, inner))
  await writeRecord(folder, record)
  await removeBelow(folder, (path, entry) => isOwnFile(path, entry) && path !== RECORD_FILE)
  await sync(folder)
}

async function syncInside (folder: string, path: string): Promise<void> {
  const file = await openInside(folder, path, 'read')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Whether a transfer of this model was sealed, so that it only has to be renamed. */
export async function isSealed (folder: string, modelId: string): Promise<boolean> {
  const own = await ownFiles(folder)
  // A job or a journal beside the record: a transfer began anew after a publication that failed.
  if (own.length !== 1 || own[0] !== RECORD_FILE) return false
  const record = await readRecord(folder, modelId)
  return record !== null && missingFile(record.manifest, await findFiles(folder)) === undefined
}

async function ownFiles (folder: string): Promise<string[]> {
  return (await readdir(folder)).filter(isOwnName)
}

function foldersOf (paths: Iterable<string>): string[] {
  return [...new Set([...paths].flatMap(foldersAbove))].sort((a, b) => b.length - a.length)
}

export const isOwnFile = (path: string, entry: Dirent): boolean => entry.isFile() && isOwnName(path)

function namedBy (record: CopyRecord | null): (path: string, entry: Dirent) => boolean {
  const files = new Set(record?.manifest.files.map(({ path }) => path))
  const folders = new Set([...files].flatMap(foldersAbove))
  return (path, entry) => entry.isDirectory() ? folders.has(path) : entry.isFile() && files.has(path)
}

/** The first thing in a copy that svc did not write: its record does not name it. */
export async function foreignFileIn (folder: string, record: CopyRecord): Promise<string | undefined> {
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

/** Whether a folder is a transfer of svc: it has one of svc's files in it, or is empty. */
export async function isTransfer (folder: string): Promise<boolean> {
  // It may have been published or discarded since it was listed.
  const entries = await readdir(folder, { withFileTypes: true })
    .catch((error: unknown) => { if (errnoOf(error) === 'ENOENT') return null; throw error })
  return entries !== null && (entries.length === 0 || entries.some((entry) => isOwnFile(entry.name, entry)))
}

export async function removeAll (folder: string): Promise<void> {
  await removeBelow(folder, () => true)
  await rmdir(folder)
}

export const notOurs = (path: string): PathError =>
  new PathError(`${path} was not written by svc, so it stays; move it elsewhere, then try again`)
