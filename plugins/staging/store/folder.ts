import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { copyFile, lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hashFile } from '../files/hash.js'
import { keepOnly } from '../files/seal.js'
import { openInside, pathOf } from '../files/open.js'
import type { ManifestFile, ModelManifest } from '../types.js'
import { StoreError } from './types.js'
import { CHUNK_BYTES } from '../types.js'
import { PathError } from '../files/names.js'
import { checkManifest } from '../files/record.js'
import { walkModel, findFiles } from '../files/walk.js'

const PIECE_BYTES = 1024 * 1024

/**
 * How a folder is copied. `onProgress` is told bytes and files done so far: half of a file's bytes count when
 * they are copied, half when they are hashed.
 */
export interface CopyOptions extends HashOptions { onProgress: (bytes: number, files: number) => void }

/**
 * Copies a model folder into `folder` and hashes the copy. Files that lie there already with the same bytes
 * are kept. The copy shares blocks with the original where the file system can (reflink); it is never a
 * hard link. Throws StoreError `source_changed` when the original is written to meanwhile, `copy_damaged`
 * when what was written does not read back; PathError, ManifestError as hashTree.
 */
export async function copyTree (
  source: string, folder: string, options: CopyOptions
): Promise<ModelManifest> {
  const before = await look(source)
  await keepOnly(folder, new Set(before.keys()))
  const copier = new Copier(source, folder, options)
  const files: ManifestFile[] = []
  try {
    for (const [path, { size }] of before) files.push(await copier.copy(path, size))
  } catch (error) {
    options.signal.throwIfAborted()
    // A file that is gone or was cut fails first; what changed is the better answer.
    await checkUnchanged(source, before)
    throw error
  }
  await checkUnchanged(source, before)
  return manifestOf(options, files)
}

/** Files and bytes of a folder that is to be imported. Throws StoreError `bad_source`, PathError. */
export async function measure (source: string): Promise<{ totalBytes: number, sizes: Map<string, number> }> {
  const entry = await lstat(source).catch((error: Error) => {
    throw new StoreError('bad_source', `cannot read ${source}: ${error.message}`, { cause: error })
  })
  if (!entry.isDirectory()) throw new StoreError('bad_source', `${source} is no folder`)
  const seen = await look(source)
  if (seen.size === 0) throw new StoreError('bad_source', `${source} holds no files`)
  return { totalBytes: sumOf(seen), sizes: new Map([...seen].map(([path, { size }]) => [path, size])) }
}

class Copier {
  readonly #source: string
  readonly #folder: string
  readonly #signal: AbortSignal
  readonly #onProgress: CopyOptions['onProgress']
  #bytes = 0
  #files = 0
  /** Set once the file system refused to share blocks. */
  #cannotClone = false

  constructor (source: string, folder: string, { signal, onProgress }: CopyOptions) {
    this.#source = source
    this.#folder = folder
    this.#signal = signal
    this.#onProgress = onProgress
  }

  async copy (path: string, size: number): Promise<ManifestFile> {
    const file = await this.#keepOrCopy(path, size)
    this.#files += 1
    this.#count(0)
    return file
  }

  #count (bytes: number): void {
    this.#bytes += bytes
    this.#onProgress(this.#bytes, this.#files)
  }

  async #keepOrCopy (path: string, size: number): Promise<ManifestFile> {
    const target = join(this.#folder, path)
    const there = await lstat(target).catch(() => null)
    if (there?.size === size) {
      const kept = await this.#kept(path, target)
      if (kept !== undefined) return kept
    }
    await rm(target, { force: true })
    const expected = await this.#clone(path, size) ? null : await this.#stream(path)
    const hashed = await this.#hash(target)
    if (expected !== null && hashed.sha256 !== expected) {
      throw new StoreError('copy_damaged',
        `${target} does not read back as it was written; check the disk with its own tools, then try again`)
    }
    return { path, ...hashed }
  }

  /** The file that is there already, when it holds the same bytes. */
  async #kept (path: string, target: string): Promise<ManifestFile | undefined> {
    const signal = this.#signal
    const original = await hashFile(join(this.#source, path), { signal })
    const kept = await hashFile(target, { signal })
    if (kept.sha256 !== original.sha256) return undefined
    this.#count(kept.size)
    return { path, ...kept }
  }

  async #hash (target: string): Promise<Omit<ManifestFile, 'path'>> {
    return await hashFile(target, { signal: this.#signal, onBytes: (n) => { this.#count(n / 2) } })
  }

  /** Lets the copy share the blocks of the original; false where the file system cannot. */
  async #clone (path: string, size: number): Promise<boolean> {
    if (this.#cannotClone) return false
    const target = join(this.#folder, path)
    const file = await openInside(this.#folder, path, 'create')
    try {
      await copyFile(join(this.#source, path), pathOf(file, target), constants.COPYFILE_FICLONE_FORCE)
      this.#count(size / 2)
      return true
    } catch {
      this.#cannotClone = true
      await rm(target, { force: true })
      return false
    } finally {
      await file.close()
    }
  }

  /** Copies byte by byte; resolves with the sha256 of what was read. */
  async #stream (path: string): Promise<string> {
    const from = await openInside(this.#source, path, 'read')
    try {
      const to = await openInside(this.#folder, path, 'create')
      try {
        return await this.#pump(from, to)
      } finally {
        await to.close()
      }
    } finally {
      await from.close()
    }
  }

  async #pump (from: FileHandle, to: FileHandle): Promise<string> {
    const hash = createHash('sha256')
    const buffer = Buffer.allocUnsafe(PIECE_BYTES)
    for (;;) {
      this.#signal.throwIfAborted()
      const { bytesRead } = await from.read(buffer, 0, PIECE_BYTES, null)
      if (bytesRead === 0) return hash.digest('hex')
      const piece = buffer.subarray(0, bytesRead)
      hash.update(piece)
      await to.writeFile(piece)
      this.#count(bytesRead / 2)
    }
  }
}

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
