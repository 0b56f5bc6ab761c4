import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { CHUNK_BYTES } from '../types.js'
import type { ManifestFile, ModelManifest } from '../types.js'
import { PathError, checkManifest, hashFile, openInside, walkModel } from '../files/index.js'
import { findFiles } from '../files/walk.js'
import { StoreError } from './errors.js'

/** A file of a folder, with what changes whenever its bytes do. */
export interface Seen { size: number, stamp: string }

/** Every file of a model folder by path, in the order of the paths. Throws PathError as walkModel does. */
export async function look (folder: string): Promise<Map<string, Seen>> {
  const found = await walkModel(folder)
  found.sort((a, b) => a.path < b.path ? -1 : a.path > b.path ? 1 : 0)
  const seen = new Map<string, Seen>()
  for (const { path } of found) {
    const { size, mtimeNs, ctimeNs, ino } = await lstat(join(folder, path), { bigint: true })
    seen.set(path, { size: Number(size), stamp: `${size} ${mtimeNs} ${ctimeNs} ${ino}` })
  }
  return seen
}

/** Bytes of all files. Pure. */
export function sumOf (seen: ReadonlyMap<string, Seen>): number {
  let sum = 0
  for (const { size } of seen.values()) sum += size
  return sum
}

/** Throws StoreError `source_changed` naming the first file that is not as it was seen before. */
export async function checkUnchanged (folder: string, before: ReadonlyMap<string, Seen>): Promise<void> {
  const after = await look(folder)
  const paths = new Set([...before.keys(), ...after.keys()])
  for (const path of paths) {
    if (before.get(path)?.stamp === after.get(path)?.stamp) continue
    throw new StoreError('source_changed',
      `${join(folder, path)} changed while it was read; try again when nobody writes there any more`)
  }
}

/** Of what model a folder is hashed. */
export interface HashOptions { modelId: string, revision: string, signal: AbortSignal }

/**
 * Hashes a folder where it lies. Throws StoreError `source_changed` when it is written to meanwhile,
 * ManifestError when it is no model (nothing in it, names that differ only in case), PathError for links.
 */
export async function hashTree (folder: string, options: HashOptions): Promise<ModelManifest> {
  const { signal } = options
  const before = await look(folder)
  const files: ManifestFile[] = []
  for (const path of before.keys()) {
    files.push({ path, ...await hashFile(join(folder, path), { signal }) })
  }
  await checkUnchanged(folder, before)
  return manifestOf(options, files)
}

/** A checked manifest of hashed files. Throws ManifestError. Pure. */
export function manifestOf (
  { modelId, revision }: { modelId: string, revision: string }, files: ManifestFile[]
): ModelManifest {
  const totalBytes = files.reduce((sum, file) => sum + file.size, 0)
  return checkManifest({ modelId, revision, totalBytes, chunkBytes: CHUNK_BYTES, files })
}

/** Makes the files read-only: staged copies may be hard links to them. */
export async function makeReadOnly (folder: string, manifest: ModelManifest): Promise<void> {
  for (const { path } of manifest.files) await setMode(folder, path, 0o444)
}

/**
 * Makes files writable again that a crash left between `makeReadOnly` and the publication. Throws PathError
 * for one with further hard links, whose mode it has in common with them.
 */
export async function makeWritable (folder: string): Promise<void> {
  await walkModel(folder)
  for (const { path, links } of await findFiles(folder)) {
    if (links > 1) throw new PathError(`${join(folder, path)} has further hard links`)
    await setMode(folder, path, 0o600)
  }
}

async function setMode (folder: string, path: string, mode: number): Promise<void> {
  const file = await openInside(folder, path, 'read')
  try {
    await file.chmod(mode)
  } finally {
    await file.close()
  }
}

/** Bytes of the model's files in a folder that may not exist; a damaged one counts 0. */
export async function bytesIn (folder: string): Promise<number> {
  const found = await walkModel(folder).catch(() => [])
  return found.reduce((sum, { size }) => sum + size, 0)
}
