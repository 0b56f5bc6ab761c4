import { readdir, rmdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Dirent } from 'node:fs'
import { removeBelow, openInside } from './open.js'
import { eachOf } from './queues.js'
import { PathError, foldersAbove, isOwnName, orMissing, shown } from './names.js'
import { sync } from './folders.js'
import { RECORD_FILE, readRecord, writeRecord } from './record.js'
import { findFiles, walkModel } from './walk.js'
import type { CopyRecord, ModelManifest } from '../types.js'

/** Number of parallel fsync calls, so that a journalling file system can commit them together. */
const PARALLEL = 16

/** Path of the first manifest file that is missing or has the wrong size; undefined if all are right. */
export function missingFile (
  manifest: ModelManifest, found: readonly { path: string, size: number }[]
): string | undefined {
  const sizes = new Map(found.map(({ path, size }) => [path, size]))
  return manifest.files.find(({ path, size }) => sizes.get(path) !== size)?.path
}

/** Lists all files in a folder. Throws PathError if a manifest file is missing or has the wrong size. */
export async function requireFiles (folder: string, manifest: ModelManifest): Promise<string[]> {
  const found = await walkModel(folder)
  const missing = missingFile(manifest, found)
  if (missing === undefined) return found.map(({ path }) => path)
  const actual = found.find(({ path }) => path === missing)?.size
  const wanted = manifest.files.find(({ path }) => path === missing)!.size
  throw new PathError(`${shown(missing)} in ${folder} should have ${wanted} bytes, ` +
    (actual === undefined ? 'but is missing' : `but has ${actual}`))
}

/** Removes files outside the manifest, syncs the rest and writes the record. Safe to repeat after a crash. */
export async function finalizeCopy (folder: string, record: CopyRecord): Promise<void> {
  await requireFiles(folder, record.manifest)
  const named = new Set(record.manifest.files.map(({ path }) => path))
  await keepOnly(folder, named)
  await eachOf([...named], PARALLEL, async (path) => {
    const file = await openInside(folder, path, 'read')
    try { await file.sync() } finally { await file.close() }
  })
  const inner = new Set([...named].flatMap(foldersAbove))
  for (const path of [...inner].sort((a, b) => b.length - a.length)) await sync(join(folder, path))
  await writeRecord(folder, record)
  await removeBelow(folder, (path, entry) => isOwnFile(path, entry) && path !== RECORD_FILE)
  await sync(folder)
}

export async function isSealed (folder: string, modelId: string): Promise<boolean> {
  const own = (await readdir(folder)).filter(isOwnName)
  // Other svc files next to the record mean that a new transfer began after a failed publication.
  if (own.length !== 1 || own[0] !== RECORD_FILE) return false
  const record = await readRecord(folder, modelId)
  return record !== null && missingFile(record.manifest, await findFiles(folder)) === undefined
}

export const isOwnFile = (path: string, entry: Dirent): boolean => entry.isFile() && isOwnName(path)

function namedBy (record: CopyRecord | null): (path: string, entry: Dirent) => boolean {
  const files = new Set(record?.manifest.files.map(({ path }) => path))
  const folders = new Set([...files].flatMap(foldersAbove))
  return (path, entry) => entry.isDirectory() ? folders.has(path) : entry.isFile() && files.has(path)
}

/** The first entry in a copy that svc did not write: neither recorded nor one of svc's own files. */
export async function foreignFileIn (folder: string, record: CopyRecord): Promise<string | undefined> {
  const named = namedBy(record)
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    const path = relative(folder, join(entry.parentPath, entry.name))
    if (!named(path, entry) && !isOwnFile(path, entry)) return path
  }
  return undefined
}

/** Removes the recorded files, then svc's own files, then the empty folder; false if other files remain. */
export async function removeCopy (folder: string): Promise<boolean> {
  await removeBelow(folder, namedBy(await readRecord(folder)))
  const empty = await removeBelow(folder, isOwnFile)
  if (empty) await rmdir(folder)
  return empty
}

export async function keepOnly (folder: string, paths: ReadonlySet<string>): Promise<void> {
  await removeBelow(folder, (path, entry) => !isOwnFile(path, entry) && !(entry.isFile() && paths.has(path)))
}

/** Whether a folder is an svc transfer, which is empty or has one of svc's own files. */
export async function isTransfer (folder: string): Promise<boolean> {
  // The folder may be gone: a concurrent call may have published or discarded it.
  const entries = await orMissing(readdir(folder, { withFileTypes: true }), null)
  return entries !== null && (entries.length === 0 || entries.some((entry) => isOwnFile(entry.name, entry)))
}

export async function removeAll (folder: string): Promise<void> {
  await removeBelow(folder, () => true)
  await rmdir(folder)
}

export const notOurs = (path: string): PathError =>
  new PathError(`${path} was not written by svc, so svc does not remove it; move it elsewhere, then retry`)
