import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import type { ManifestFile, ModelManifest } from '../types.js'

/** A range of a file that is fetched and verified as a unit; `end` is exclusive. */
export interface Chunk {
  file: Pick<ManifestFile, 'path' | 'size'>
  index: number, start: number, end: number
  verifier (): Verifier
}

export interface Verifier {
  update (bytes: Uint8Array): void
  /** Whether the bytes have the expected hash. Call it once, after the last byte. */
  right (): boolean
}

export interface ChunkTable {
  readonly count: number
  at (chunk: number): Chunk
  /** The first chunk of a file and the number of its chunks. */
  of (path: string): { first: number, count: number }
}

/** Numbers the chunks of files in order; `cut` returns the chunks of a file. */
export function chunkTable<F extends { path: string }> (
  files: readonly F[], cut: (file: F) => readonly Chunk[]
): ChunkTable {
  const chunks: Chunk[] = []
  const places = new Map<string, { first: number, count: number }>()
  for (const file of files) {
    const first = chunks.length
    for (const chunk of cut(file)) chunks.push(chunk)
    places.set(file.path, { first, count: chunks.length - first })
  }
  return { count: chunks.length, at: (chunk) => chunks[chunk]!, of: (path) => places.get(path)! }
}

/** The chunks of a checked manifest. */
export const chunksOf = ({ files, chunkBytes }: ModelManifest): ChunkTable => chunkTable(files, (file) =>
  file.chunkSha256.map((sha256, index) => {
    const start = index * chunkBytes
    const end = Math.min(start + chunkBytes, file.size)
    return { file, index, start, end, verifier: () => sha256Verifier(sha256) }
  }))

function sha256Verifier (wanted: string): Verifier {
  const hash = createHash('sha256')
  return { update: (bytes) => { hash.update(bytes) }, right: () => hash.digest('hex') === wanted }
}

/** A chunk in progress, which another source can continue at the current offset. */
export interface Work {
  readonly number: number, readonly chunk: Chunk, readonly size: number
  /** Verifier that has hashed the first `done` bytes. */
  readonly verifier: Verifier
  done: number, readonly givers: Set<string>
  /** True if the first bytes are from an earlier run, so no source is to blame for a wrong hash. */
  readonly kept: boolean
}

export function beginWork (number: number, chunk: Chunk, kept?: { verifier: Verifier, done: number }): Work {
  return {
    number, chunk, size: chunk.end - chunk.start, verifier: kept?.verifier ?? chunk.verifier(),
    done: kept?.done ?? 0, givers: new Set(), kept: kept !== undefined
  }
}

/** Bytes to gather before hashing and writing, so that one event loop turn takes about 1 ms. */
export const GATHER_BYTES = 1024 * 1024

/**
 * Writes the missing bytes of a chunk: `add` takes at most those, `flush` writes the gathered ones. Both
 * throw write errors. `written` receives the number of bytes written; the next write waits for its promise.
 */
export function chunkWriter (
  work: Work, file: FileHandle, written: (bytes: number) => Promise<void> | undefined
) {
  const buffer = Buffer.allocUnsafeSlow(Math.min(GATHER_BYTES, work.size - work.done))
  let filled = 0
  const flush = async (): Promise<void> => {
    const bytes = buffer.subarray(0, filled)
    const start = work.chunk.start + work.done
    filled = 0
    for (let at = 0; at < bytes.length;) {
      at += (await file.write(bytes, at, bytes.length - at, start + at)).bytesWritten
    }
    if (bytes.length === 0) return
    work.verifier.update(bytes)
    work.done += bytes.length
    await written(bytes.length)
  }
  const add = async (bytes: Uint8Array): Promise<void> => {
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + buffer.length - filled)
      buffer.set(part, filled)
      filled += part.length
      at += part.length
      if (filled === buffer.length) await flush()
    }
  }
  return { add, flush }
}
