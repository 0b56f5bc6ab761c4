import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { delay } from '../../../kernel/index.js'
import type { Clock } from '../../../kernel/index.js'
import { ChunkedHash } from '../files/hash.js'
import { EMPTY_SHA256 } from '../files/record.js'
import { diskSource } from '../peers/sources.js'
import { fetchModel } from '../transfer/fetch.js'
import { LONG_WAIT_MS } from '../transfer/types.js'
import type { ChunkSource, FetchOptions, TransferLimits } from '../transfer/types.js'
import type { ChunkTable, Verifier } from '../transfer/chunks.js'
import { CHUNK_BYTES } from '../types.js'
import type { ManifestFile, ModelManifest } from '../types.js'
import { HubError } from './types.js'
import type { HubClient } from './client.js'
import type { HubFile, HubSelection, LocalHubFile } from './types.js'

/** Maximum number of consecutive waits longer than LONG_WAIT_MS. */
const MOST_WAITS = 5

/** One hub file per request, three at a time. The timeouts cover a chain of redirects. */
const LIMITS: Partial<TransferLimits> = {
  parallel: 3, perSource: 3, connectMs: 60_000, idleMs: 30_000, backoffMs: 1000
}

export interface DownloadOptions extends Pick<FetchOptions,
'folder' | 'clock' | 'random' | 'signal' | 'space' | 'spaceEveryBytes' | 'onProgress' | 'limits'> {
  client: HubClient | null
  selection: Pick<HubSelection, 'modelId' | 'commit' | 'files' | 'totalBytes'>
  near?: readonly LocalHubFile[]
}

/**
 * Downloads exactly the selected files to a folder and verifies every hash; removes other files there. After
 * a failure the downloaded bytes stay, and the next call resumes. Throws HubError, StoreError, PathError,
 * errors of `space`, or the signal's reason.
 */
export async function downloadFromHub (options: DownloadOptions): Promise<ModelManifest> {
  const { client, selection, near = [], limits, ...rest } = options
  const { modelId, commit, totalBytes, files } = selection
  const chunks = new WholeFiles(files)
  const places = new Map(near.map((file) => [file.path, file]))
  const disk: ChunkSource = {
    ...diskSource((path) => places.get(path)!), kind: 'peer',
    has: (chunk) => places.has(chunks.at(chunk).file.path)
  }
  const sources = [
    ...near.length === 0 ? [] : [disk], ...client === null ? [] : [hubSource(client, selection)]
  ]
  await fetchModel({
    ...rest,
    manifest: { modelId, totalBytes, files, chunks },
    sources: () => sources,
    // Without a client, the source is a local disk; a retry would only read the same bytes again.
    limits: { ...LIMITS, ...client === null ? { retries: 0, hashRetries: 1 } : {}, ...limits }
  })
  const hashed = chunks.hashed().sort((a, b) => a.path < b.path ? -1 : 1)
  return { modelId, revision: commit, totalBytes, chunkBytes: CHUNK_BYTES, files: hashed }
}

function hubSource (client: HubClient, selection: DownloadOptions['selection']): ChunkSource {
  const files = new Map(selection.files.map((file) => [file.path, file]))
  return {
    id: 'hub', kind: 'store', has: () => true,
    read: async (path, { start }, signal) => await client.open(selection, files.get(path)!, { start, signal })
  }
}

/** Treats each file as one chunk, since the hub has hashes only of complete files. Small files come first. */
class WholeFiles implements ChunkTable {
  readonly count: number
  readonly #files: HubFile[]
  readonly #numbers: Map<string, number>
  readonly #hashers = new Map<string, FileHasher>()

  constructor (files: readonly HubFile[]) {
    this.#files = files.filter(({ size }) => size > 0).sort((a, b) => a.size - b.size)
    this.#numbers = new Map(this.#files.map(({ path }, i) => [path, i]))
    this.count = this.#files.length
    for (const file of files) this.#hashers.set(file.path, new FileHasher(file))
  }

  at (chunk: number): ReturnType<ChunkTable['at']> {
    const file = this.#files[chunk]
    if (file === undefined) throw new RangeError(`there is no file ${chunk} of ${this.count}`)
    const verifier = (): Verifier => {
      const hasher = new FileHasher(file)
      this.#hashers.set(file.path, hasher)
      return hasher
    }
    return { file, index: 0, start: 0, end: file.size, verifier }
  }

  of (path: string): { first: number, count: number } {
    const first = this.#numbers.get(path)
    return first === undefined ? { first: 0, count: 0 } : { first, count: 1 }
  }

  hashed (): ManifestFile[] { return [...this.#hashers.values()].map((hasher) => hasher.file()) }
}

/** Hashes a file as it arrives, also as a git blob if the hub has no SHA-256. */
class FileHasher implements Verifier {
  readonly #file: HubFile
  readonly #hash = new ChunkedHash()
  readonly #blob: Hash | undefined
  #found: ReturnType<ChunkedHash['end']> = { sha256: EMPTY_SHA256, chunkSha256: [] }

  constructor (file: HubFile) {
    this.#file = file
    if (file.sha256 === null) this.#blob = createHash('sha1').update(`blob ${file.size}\0`)
  }

  update (bytes: Uint8Array): void {
    this.#hash.update(bytes)
    this.#blob?.update(bytes)
  }

  right (): boolean {
    const { sha256, gitSha1 } = this.#file
    this.#found = this.#hash.end()
    return this.#blob === undefined ? this.#found.sha256 === sha256 : this.#blob.digest('hex') === gitSha1
  }

  file (): ManifestFile {
    const { path, size } = this.#file
    return { path, size, ...this.#found }
  }
}

/**
 * Repeats `turn` if the hub requests a long wait. `turn` queues for the disk, so the wait comes after it,
 * when others can use the disk. Throws the last error after MOST_WAITS, or the signal's reason.
 */
export async function inTurn<T> (clock: Clock, signal: AbortSignal, turn: () => Promise<T>): Promise<T> {
  for (let waits = 0; ; waits++) {
    try {
      return await turn()
    } catch (error) {
      const waitMs = error instanceof HubError ? error.retryAfterMs ?? 0 : 0
      if (waitMs <= LONG_WAIT_MS || waits >= MOST_WAITS) throw error
      await delay(clock, waitMs, signal)
    }
  }
}
