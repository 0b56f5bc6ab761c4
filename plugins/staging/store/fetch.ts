import { createHash, type Hash } from 'node:crypto'
import { bringFiles, type LocalFile } from '../files/bring.js'
import { overlap } from '../files/folders.js'
import { manifestDigest, EMPTY_SHA256 } from '../files/record.js'
import { keepOnly } from '../files/seal.js'
import { folderSource, diskSource } from '../peers/sources.js'
import { fetchModel } from '../transfer/fetch.js'
import { failureOf, type Job } from '../transfer/job.js'
import { checkUnchanged, hashTree, makeReadOnly, makeWritable, openSource } from './folder.js'
import { parseSource, type Derive, type StoreOptions } from './types.js'
import {
  StoreError, CHUNK_BYTES, type HubChoice, type LocalCopy, type ModelManifest, type ManifestFile
} from '../types.js'
import { writeDownload, type Download } from './download.js'
import { delay, type ModelCard, type Clock } from '../../../kernel/index.js'
import { ChunkedHash } from '../files/hash.js'
import { LONG_WAIT_MS, type ChunkSource, type FetchOptions, type TransferLimits } from '../transfer/types.js'
import { chunkTable, type Verifier } from '../transfer/chunks.js'
import { HubError, type HubSelection, type HubFile, type LocalHubFile } from '../hub/types.js'
import { lstat, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { DeriveOptions } from '../cards/found.js'
import type { HubClient } from '../hub/client.js'

interface Fetched {
  manifest: ModelManifest, source: string, choice?: HubChoice, licence?: string | undefined
  languages?: string[]
}

/** Temporary hub errors, after which a download without options uses the copy in the store. */
const UNREACHABLE = new Set(['unavailable', 'stalled', 'rate_limited'])

/** Downloads unless the store already has the model. After a failure the bytes stay for the next run. */
export async function download (options: StoreOptions, job: Download): Promise<LocalCopy> {
  const { root, derive } = options
  const { modelId, signal } = job
  signal.throwIfAborted()
  const begin = async (): Promise<string> => {
    const folder = await root.begin(modelId)
    await writeDownload(folder, job, 'active')
    return folder
  }
  const folder = await begin()
  await makeWritable(folder).catch(async () => {
    // Start with an empty folder if it has entries that no download creates, such as a symbolic link.
    await root.discard(modelId)
    await begin()
  })
  const fetched = await obtain(options, job, folder)
  if ('directory' in fetched) {
    await root.discard(modelId)
    return fetched
  }
  const { manifest, source, choice } = fetched
  const card = await cardOf(derive, job, folder, fetched)
  await makeReadOnly(folder, manifest)
  signal.throwIfAborted()
  await root.publish(modelId, { manifest, card, source, ...choice === undefined ? {} : { choice } })
  return root.copies.get(modelId)!
}

/** Records the start of a download on disk before the first byte is fetched. */
async function begins (job: Download, folder: string): Promise<void> {
  job.ask.attempts++
  await writeDownload(folder, job, 'active')
}

async function obtain (options: StoreOptions, job: Download, folder: string): Promise<Fetched | LocalCopy> {
  const source = parseSource(job.ask.request.source)
  switch (source.kind) {
    case 'hub': return await fromHub(options, job, folder)
    case 'file': return await fromFolder(options, job, folder, source.path)
    case 'node': return await fromNode(options, job, folder, source.installId)
  }
}

async function fromHub (options: StoreOptions, job: Download, folder: string): Promise<Fetched | LocalCopy> {
  const { hub, root } = options
  if (hub === null) throw new StoreError('no_hub', NO_HUB)
  const { modelId, signal, ask } = job
  const entry = root.copies.get(modelId)
  const selection = await choose(hub, job, entry)
  if (selection === null || (entry !== undefined && isSame(entry, selection))) return entry!
  ask.selection = selection
  await writeDownload(folder, job, 'active')
  await keepOnly(folder, new Set(selection.files.map(({ path }) => path)))
  const near = ask.nearby === true ? await cachedFiles(options.hubCache, modelId, selection.files) : []
  await bringFiles(folder, near, SHARED, signal)
  const manifest = await fetchSelection({ ...options, hub }, job, { ...selection, near }, async () => {
    await begins(job, folder)
    if (entry !== undefined) await copyUnchanged(entry, selection, folder, signal)
  })
  const { allow, variant } = ask.request
  const { commit, licence, languages } = selection
  return {
    manifest, source: `hub:${hub.url}@${commit}`, languages, licence: licence ?? undefined,
    ...allow === null && variant === null ? {} : { choice: { allow, variant } }
  }
}

/**
 * Downloads the selected hub files into the incoming folder when the transfer's turn comes, if they fit. If
 * the hub requests a long pause, other transfers run meanwhile. `before` runs first in each turn and may add
 * files. Throws the errors of `FreeSpace.admit` and `downloadFromHub`.
 */
export async function fetchSelection (
  { root, freeSpace, hub, clock, random }:
  Pick<StoreOptions, 'root' | 'freeSpace' | 'clock' | 'random'> & { hub: HubClient | null },
  job: Job, { near = [], ...selection }: Selected, before?: () => Promise<void>
): Promise<ModelManifest> {
  const { totalBytes } = selection
  return await inTurn(clock, job.signal, async () =>
    await freeSpace.admit({ root, job, totalBytes }, async (into) => {
      await before?.()
      return await downloadFromHub({ ...into, client: hub, selection, near, clock, random })
    }))
}

type Selected = DownloadOptions['selection'] & Pick<DownloadOptions, 'near'>

/** Ways to import files of other programs without using more disk space. */
const SHARED = ['clone', 'link'] as const

export const NO_HUB = 'hub downloads are disabled; enable model_store.hub in svc.yaml, or pull from ' +
  'file:///absolute/folder or node:<install id>'

async function choose (
  hub: HubClient, { modelId, signal, ask }: Download, entry: LocalCopy | undefined
): Promise<HubSelection | null> {
  if (ask.selection !== null) return ask.selection
  const { revision, allow, variant } = ask.request
  try {
    return await hub.resolve(modelId, { signal, revision, allow, variant })
  } catch (error) {
    const plain = revision === null && allow === null && variant === null
    if (entry !== undefined && plain && UNREACHABLE.has(failureOf(error).reason)) return null
    throw error
  }
}

/** Whether a copy consists of exactly the selected files at the selected commit. Pure. */
function isSame ({ manifest, source }: LocalCopy, { commit, files }: HubSelection): boolean {
  return source.startsWith('hub:') && manifest.revision === commit &&
    sameSizes(manifest, new Map(files.map((file) => [file.path, file])))
}

function sameSizes ({ files }: ModelManifest, others: ReadonlyMap<string, { size: number }>): boolean {
  return files.length === others.size && files.every(({ path, size }) => others.get(path)?.size === size)
}

/** Copies files that seem unchanged from the old copy; the download verifies and may replace them. */
async function copyUnchanged (
  { directory, manifest }: LocalCopy, selection: HubSelection, folder: string, signal: AbortSignal
): Promise<void> {
  const old = new Map(manifest.files.map((file) => [file.path, file]))
  const alike = selection.files.filter(({ path, size, sha256 }) => {
    const file = old.get(path)
    return file?.size === size && (sha256 === null || sha256 === file.sha256)
  })
  await bringFiles(folder, inFolder(directory, alike), ['copy'], signal)
}

const inFolder = (root: string, files: readonly { path: string, size: number }[]): LocalFile[] =>
  files.map(({ path, size }) => ({ path, size, root, inner: path }))

/** Hashes a local folder, then copies it like a model from any other source. */
async function fromFolder (
  { root, freeSpace, clock, random, derive }: StoreOptions, job: Download, folder: string, path: string
): Promise<Fetched | LocalCopy> {
  const { modelId, signal, ask: { request } } = job
  // Ignore a path that cannot be resolved here, because it fails later with a clearer error.
  if (await overlap(root.root, path).catch(() => false)) {
    throw new StoreError('bad_source',
      `${path} overlaps with the store at ${root.root}; use another folder`)
  }
  const { folder: source, taken, seen } = await openSource(path, request.allow)
  const totalBytes = [...seen.values()].reduce((sum, { size }) => sum + size, 0)
  const about = { modelId, revision: request.revision ?? 'local', signal, taken }
  // Fails early if the headers are of no use, since hashing and copying take minutes.
  const files = [...seen].map(([path, { size }]) => ({ path, size }))
  await begins(job, folder)
  await cardOf(derive, job, source, { manifest: { revision: about.revision, files } }, 'cannot be used')
  // Waiting for the transfer's turn is no attempt.
  job.ask.attempts--
  await writeDownload(folder, job, 'active')
  const entry = root.copies.get(modelId)
  const alike = entry !== undefined && sameSizes(entry.manifest, seen)
  const known = alike ? await hashTree(source, about) : undefined
  if (known !== undefined && manifestDigest(known) === entry!.digest) return entry!
  const manifest = await freeSpace.admit({ root, job, totalBytes }, async (into) => {
    await begins(job, folder)
    let hashed = 0
    // Hashing and copying each count as half of the progress.
    const report = (done: number, files: number): void => {
      into.onProgress({ bytes: done / 2, totalBytes, files, totalFiles: seen.size })
    }
    try {
      const onBytes = (n: number): void => { report(hashed += n, 0) }
      const manifest = known ?? await hashTree(source, { ...about, onBytes })
      await keepOnly(folder, new Set(seen.keys()))
      // Clone the files if the file system supports it; the transfer copies the others.
      await bringFiles(folder, inFolder(source, manifest.files), ['clone'], signal)
      await fetchModel({
        ...into, manifest, clock, random, sources: () => [folderSource(source)],
        limits: { retries: 0, hashRetries: 1 },
        onProgress: ({ bytes, files }) => { report(totalBytes + bytes, files) }
      })
      return manifest
    } finally {
      // Check even after a failure, since a changed source is the better explanation.
      if (!signal.aborted) await checkUnchanged(source, seen, taken)
    }
  })
  return { manifest, source: 'file' }
}

async function fromNode (
  { root, freeSpace, clock, random, fromNode: ask }: StoreOptions, job: Download, folder: string,
  installId: string
): Promise<Fetched> {
  const { manifest, digest, source } = await ask(job.modelId, installId, job.signal)
  const { totalBytes } = manifest
  await freeSpace.admit({ root, job, totalBytes, digest }, async (into) => {
    await begins(job, folder)
    await fetchModel({ ...into, manifest, clock, random, sources: () => [source] })
  })
  return { manifest, source: 'node' }
}

async function cardOf (
  derive: Derive, { modelId }: Download, folder: string,
  { manifest: { revision, files }, licence, languages }: Pick<Fetched, 'licence' | 'languages'> &
    { manifest: Pick<DeriveOptions, 'revision' | 'files'> },
  what = 'was downloaded, but cannot run'
): Promise<ModelCard> {
  try {
    return await derive(folder, { modelId, revision, files, licence, languages })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new StoreError('unusable_model', `${modelId} ${what}: ${why}`, { cause: error })
  }
}

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
  const hashers = new Map(files.map((file) => [file.path, new FileHasher(file)]))
  // Each file is one chunk, since the hub has hashes only of complete files. Small files come first.
  const chunks = chunkTable(files.toSorted((a, b) => a.size - b.size), (file) => file.size === 0 ? [] : [{
    file, index: 0, start: 0, end: file.size,
    verifier () {
      const hasher = new FileHasher(file)
      hashers.set(file.path, hasher)
      return hasher
    }
  }])
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
  const hashed = [...hashers.values()].map((hasher) => hasher.file()).sort((a, b) => a.path < b.path ? -1 : 1)
  return { modelId, revision: commit, totalBytes, chunkBytes: CHUNK_BYTES, files: hashed }
}

function hubSource (client: HubClient, selection: DownloadOptions['selection']): ChunkSource {
  const files = new Map(selection.files.map((file) => [file.path, file]))
  return {
    id: 'hub', kind: 'store', has: () => true,
    read: async (path, { start }, signal) => await client.open(selection, files.get(path)!, { start, signal })
  }
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
async function inTurn<T> (clock: Clock, signal: AbortSignal, turn: () => Promise<T>): Promise<T> {
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

/** Finds files in the cache by the hash in the blob's name, without reading their contents. */
export async function cachedFiles (
  cache: string | null, modelId: string, files: readonly HubFile[]
): Promise<LocalHubFile[]> {
  const root = cache === null ? undefined : await realpath(cache).catch(() => undefined)
  if (root === undefined) return []
  const found: LocalHubFile[] = []
  for (const file of files) {
    const inner = `models--${modelId.replace('/', '--')}/blobs/${file.sha256 ?? file.gitSha1!}`
    const there = await lstat(join(root, inner)).catch(() => undefined)
    if (there?.isFile() === true && there.size === file.size) found.push({ ...file, root, inner })
  }
  return found
}
