import { keepOnly, openInside } from '../files/index.js'
import { eachOf } from '../files/each.js'
import { findFiles } from '../files/walk.js'
import { ChunkBits } from './bits.js'
import { GATHER_BYTES } from './chunk-writer.js'
import { beginWork } from './chunks.js'
import type { FileHandle } from 'node:fs/promises'
import type { Chunk, ChunkTable, Verifier, Work } from './chunks.js'
import type { JournalState } from './journal.js'
import type { FileList } from './types.js'

/** What an incoming folder already holds of a model, as far as its bytes were hashed again. */
export interface Kept { complete: ChunkBits, begun: Work[] }

/** What says how much of each chunk may be there: see `findKept`. */
export type Claims = JournalState | 'whole chunks' | 'first bytes'

interface Search { folder: string, table: ChunkTable, claims: Claims, kept: Kept }

/**
 * Clears an incoming folder of whatever does not belong to the manifest, makes its empty files, and finds
 * what of the rest is right: of the chunks that a journal names; else of every whole chunk; or, where each
 * file is one chunk and was written from its beginning, of as many bytes as it has.
 * Throws the error of the file system, or the signal's reason.
 */
export async function findKept (
  folder: string, files: FileList['files'], table: ChunkTable, claims: Claims,
  signal: AbortSignal | undefined
): Promise<Kept> {
  await keepOnly(folder, new Set(files.map(({ path }) => path)))
  const sizes = new Map((await findFiles(folder)).map(({ path, size }) => [path, size]))
  const kept: Kept = { complete: new ChunkBits(table.count), begun: [] }
  const search = { folder, table, claims, kept }
  const wanted = files.filter(({ path, size }) => size === 0 || sizes.has(path))
  // Two at once: one file is read while the other one's bytes are hashed.
  await eachOf(wanted, 2, async (file) => {
    signal?.throwIfAborted()
    await lookAt(search, file, sizes.get(file.path) ?? 0, signal)
  })
  return kept
}

/** Hashes what a file holds of its chunks, and cuts off what is beyond its size. */
async function lookAt (
  { folder, table, claims, kept }: Search, file: FileList['files'][number], size: number,
  signal: AbortSignal | undefined
): Promise<void> {
  const handle = await openInside(folder, file.path, 'update')
  try {
    if (size > file.size) await handle.truncate(file.size)
    const { first, count } = table.of(file.path)
    for (let i = first; i < first + count; i++) {
      const chunk = table.at(i)
      if (chunk.start >= size) break
      const whole = chunk.end - chunk.start
      const claimed = claims === 'first bytes' ? Math.min(whole, size) : claimedOf(claims, i, whole)
      if (claimed === 0 || claimed > whole || chunk.start + claimed > size) continue
      const verifier = await hashed(handle, chunk, claimed, signal)
      if (verifier === undefined) continue
      if (claimed < whole) kept.begun.push(beginWork(i, chunk, { verifier, done: claimed }))
      else if (verifier.right()) kept.complete.add(i)
    }
  } finally {
    await handle.close()
  }
}

function claimedOf (claims: JournalState | 'whole chunks', chunk: number, whole: number): number {
  if (claims === 'whole chunks' || claims.complete.has(chunk)) return whole
  return claims.partial.get(chunk) ?? 0
}

/** A verifier that has seen the first bytes of a chunk; undefined when the file ends before. */
async function hashed (
  handle: FileHandle, chunk: Chunk, bytes: number, signal: AbortSignal | undefined
): Promise<Verifier | undefined> {
  const { start } = chunk
  const end = start + bytes
  const verifier = chunk.verifier()
  const buffer = Buffer.allocUnsafeSlow(Math.min(GATHER_BYTES, end - start))
  for (let at = start; at < end;) {
    signal?.throwIfAborted()
    const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, end - at), at)
    if (bytesRead === 0) return undefined
    verifier.update(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
  return verifier
}
