import { shown } from './names.js'
import type { ManifestFile, ModelManifest } from '../types.js'

/** One chunk: the bytes from `start` up to, without, `end` of a file. */
export interface Chunk {
  file: ManifestFile
  /** Number of the chunk within its file. */
  index: number
  start: number
  end: number
  sha256: string
}

/** The chunks of a manifest, numbered through all files in the manifest's order. */
export interface ChunkTable {
  readonly count: number
  /** The chunk with this number. Throws RangeError for a number that is none. */
  at (chunk: number): Chunk
  /** The chunks of a file: their first number and how many. Throws RangeError for an unknown path. */
  of (path: string): { first: number, count: number }
}

/** The chunks of a checked manifest. Finding one takes time logarithmic in the number of files. */
export function chunksOf (manifest: ModelManifest): ChunkTable {
  const { files, chunkBytes } = manifest
  /** firsts[i]: the number of the first chunk of file i; one more entry holds the count of all. */
  const firsts = new Float64Array(files.length + 1)
  const byPath = new Map<string, number>()
  files.forEach((file, i) => {
    firsts[i + 1] = firsts[i]! + file.chunkSha256.length
    byPath.set(file.path, i)
  })
  const count = firsts[files.length]!
  return {
    count,
    at (chunk) {
      if (!Number.isInteger(chunk) || chunk < 0 || chunk >= count) {
        throw new RangeError(`there is no chunk ${chunk}; the manifest has ${count}`)
      }
      const at = lastNotAbove(firsts, chunk)
      const file = files[at]!
      const index = chunk - firsts[at]!
      const start = index * chunkBytes
      const end = Math.min(start + chunkBytes, file.size)
      return { file, index, start, end, sha256: file.chunkSha256[index]! }
    },
    of (path) {
      const at = byPath.get(path)
      if (at === undefined) throw new RangeError(`the manifest has no file ${shown(path)}`)
      return { first: firsts[at]!, count: firsts[at + 1]! - firsts[at]! }
    }
  }
}

/** The last index whose value is not above `value`: of equal ones (empty files) the one that holds it. */
function lastNotAbove (sorted: Float64Array, value: number): number {
  let low = 0
  let high = sorted.length - 1
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (sorted[middle]! <= value) low = middle
    else high = middle - 1
  }
  return low
}
