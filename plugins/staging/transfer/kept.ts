import { createHash } from 'node:crypto'
import { keepOnly, openInside } from '../files/index.js'
import { eachOf } from '../files/each.js'
import { findFiles } from '../files/walk.js'
import { ChunkBits } from './bits.js'
import { GATHER_BYTES } from './chunk-writer.js'
import { beginWork } from './work.js'
import type { Hash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { ChunkTable } from '../files/index.js'
import type { ManifestFile, ModelManifest } from '../types.js'
import type { JournalState } from './journal.js'
import type { Work } from './work.js'

/** What an incoming folder already holds of a model, as far as its bytes were hashed again. */
export interface Kept { complete: ChunkBits, begun: Work[] }

interface Search { folder: string, table: ChunkTable, journal: JournalState | undefined, kept: Kept }

/**
 * Clears an incoming folder of whatever does not belong to the manifest, makes its empty files, and finds
 * what of the rest is right. With a journal only the chunks it names are looked at, without one every whole
 * chunk.
 * Throws the error of the file system, or the signal's reason.
 */
export async function findKept (
  folder: string, manifest: ModelManifest, table: ChunkTable, journal: JournalState | undefined,
  signal: AbortSignal | undefined
): Promise<Kept> {
  await keepOnly(folder, new Set(manifest.files.map(({ path }) => path)))
  const sizes = new Map((await findFiles(folder)).map(({ path, size }) => [path, size]))
  const kept: Kept = { complete: new ChunkBits(table.count), begun: [] }
  const search = { folder, table, journal, kept }
  const wanted = manifest.files.filter(({ path, size }) => size === 0 || sizes.has(path))
  // Two at once: one file is read while the other one's bytes are hashed.
  await eachOf(wanted, 2, async (file) => {
    signal?.throwIfAborted()
    await lookAt(search, file, sizes.get(file.path) ?? 0, signal)
  })
  return kept
}

/** Hashes what a file holds of its chunks, and cuts off what is beyond its size. */
async function lookAt (
  { folder, table, journal, kept }: Search, file: ManifestFile, size: number, signal: AbortSignal | undefined
): Promise<void> {
  const handle = await openInside(folder, file.path, 'update')
  try {
    if (size > file.size) await handle.truncate(file.size)
    const { first, count } = table.of(file.path)
    for (let i = first; i < first + count; i++) {
      const chunk = table.at(i)
      if (chunk.start >= size) break
      const whole = chunk.end - chunk.start
      const claimed = journal === undefined || journal.complete.has(i) ? whole : journal.partial.get(i) ?? 0
      if (claimed === 0 || claimed > whole || chunk.start + claimed > size) continue
      const hash = await hashRange(handle, chunk.start, chunk.start + claimed, signal)
      if (hash === undefined) continue
      if (claimed < whole) kept.begun.push(beginWork(i, chunk, { hash, done: claimed }))
      else if (hash.digest('hex') === chunk.sha256) kept.complete.add(i)
    }
  } finally {
    await handle.close()
  }
}

/** The hash over a range of a file; undefined when the file ends before. */
async function hashRange (
  handle: FileHandle, start: number, end: number, signal: AbortSignal | undefined
): Promise<Hash | undefined> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafeSlow(Math.min(GATHER_BYTES, end - start))
  for (let at = start; at < end;) {
    signal?.throwIfAborted()
    const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, end - at), at)
    if (bytesRead === 0) return undefined
    hash.update(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
  return hash
}
