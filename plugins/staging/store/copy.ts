import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { copyFile, lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hashFile, keepOnly, openInside, pathOf } from '../files/index.js'
import type { ManifestFile, ModelManifest } from '../types.js'
import { StoreError } from './errors.js'
import { checkUnchanged, look, manifestOf, sumOf } from './tree.js'
import type { HashOptions } from './tree.js'

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
