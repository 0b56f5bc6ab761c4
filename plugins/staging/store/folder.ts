import { existsSync } from 'node:fs'
import { lstat, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { hashFile } from '../files/hash.js'
import { openInside } from '../files/open.js'
import { isModel, isModelFile, matcherOf } from '../hub/select.js'
import type { ManifestFile, ModelManifest } from '../types.js'
import { CHUNK_BYTES, StoreError } from '../types.js'
import { checkManifest } from '../files/record.js'
import { walkModel } from '../files/walk.js'

const HOME_KEY = 'node.key'

/** A file of a folder, with what changes whenever its bytes do. */
export interface FileStamp { size: number, stamp: string }

type Taken = (path: string) => boolean

/** Every file of a model folder by path, in the order of the paths. Throws PathError as walkModel does. */
async function listFiles (folder: string, taken: Taken = () => true): Promise<Map<string, FileStamp>> {
  const seen = new Map<string, FileStamp>()
  for (const { path } of await walkModel(folder)) {
    if (!taken(path)) continue
    const { size, mtimeNs, ctimeNs, ino } = await lstat(join(folder, path), { bigint: true })
    seen.set(path, { size: Number(size), stamp: `${size} ${mtimeNs} ${ctimeNs} ${ino}` })
  }
  return seen
}

/** Which files of a folder are imported: those of known formats, and of these what `allow` names. */
export function importFilter (allow: readonly string[] | null | undefined): Taken {
  const allowed = allow == null ? () => true : matcherOf(allow)
  return (path) => {
    if (basename(path) === HOME_KEY) {
      throw new StoreError('bad_source', `it holds the home of a node, ${dirname(path)}`)
    }
    return isModelFile(path) && allowed(path)
  }
}

/** The files of a folder that is to be imported. Throws StoreError `bad_source`, PathError. */
export async function checkSource (source: string, taken: Taken): Promise<Map<string, FileStamp>> {
  const refused = (why: string): StoreError => new StoreError('bad_source', `${source} ${why}`)
  const real = await realpath(source).catch((error: Error) => {
    throw new StoreError('bad_source', `cannot read ${source}: ${error.message}`, { cause: error })
  })
  if (real !== resolve(source)) throw refused(`is a link, or lies behind one: it leads to ${real}; give that`)
  if (!(await lstat(source)).isDirectory()) throw refused('is no folder')
  for (let at = real, below = ''; at !== below; below = at, at = dirname(at)) {
    if (existsSync(join(at, HOME_KEY))) throw refused(`lies in the home of a node, ${at}`)
  }
  const seen = await listFiles(source, taken)
  if (seen.size === 0) throw refused('holds no files of a model')
  if (isModel([...seen.keys()])) return seen
  throw refused('has neither GGUF nor ONNX weights, nor a card.yaml')
}

/** Throws StoreError `source_changed` naming the first file that is not as it was seen before. */
export async function checkUnchanged (
  folder: string, before: ReadonlyMap<string, FileStamp>, taken?: Taken
): Promise<void> {
  const after = await listFiles(folder, taken)
  for (const path of new Set([...before.keys(), ...after.keys()])) {
    if (before.get(path)?.stamp === after.get(path)?.stamp) continue
    throw new StoreError('source_changed',
      `${join(folder, path)} changed while it was read; try again when nobody writes there any more`)
  }
}

/** Of what model a folder is hashed; `onBytes` is told after each read how many bytes it brought. */
export interface HashOptions {
  modelId: string
  revision: string
  signal: AbortSignal
  onBytes?: (bytes: number) => void
  /** All of it when left out. */
  taken?: Taken
}

/**
 * Hashes a folder where it lies. Throws StoreError `source_changed` when it is written to meanwhile,
 * ManifestError when it is no model (nothing in it, names that differ only in case), PathError for links.
 */
export async function hashTree (
  folder: string, { modelId, revision, taken, ...options }: HashOptions
): Promise<ModelManifest> {
  const before = await listFiles(folder, taken)
  const files: ManifestFile[] = []
  for (const path of before.keys()) files.push({ path, ...await hashFile(join(folder, path), options) })
  await checkUnchanged(folder, before, taken)
  const totalBytes = files.reduce((sum, file) => sum + file.size, 0)
  return checkManifest({ modelId, revision, totalBytes, chunkBytes: CHUNK_BYTES, files })
}

/** Makes the files read-only, for staged copies may link to them, but those of other programs. */
export async function makeReadOnly (folder: string, manifest: ModelManifest): Promise<void> {
  for (const { path } of manifest.files) await setMode(folder, path, 0o444)
}

/** Makes files writable again that a crash left between `makeReadOnly` and the publication. */
export async function makeWritable (folder: string): Promise<void> {
  for (const { path } of await walkModel(folder)) await setMode(folder, path, 0o600)
}

async function setMode (folder: string, path: string, mode: number): Promise<void> {
  const file = await openInside(folder, path, 'read')
  try {
    if ((await file.stat()).nlink === 1) await file.chmod(mode)
  } finally {
    await file.close()
  }
}
