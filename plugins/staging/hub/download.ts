import type { Clock } from '../../../kernel/index.js'
import { inFolder, keepOnly } from '../files/index.js'
import { CHUNK_BYTES } from '../types.js'
import type { ManifestFile, ModelManifest, Progress } from '../types.js'
import { fetchFile } from './fetch-file.js'
import type { Job } from './fetch-file.js'
import { Tally } from './tally.js'
import type { HubClient, HubFile, HubSelection } from './types.js'

const GIB = 1024 ** 3

/** How a selection is brought to a folder. */
export interface DownloadOptions {
  client: HubClient
  selection: HubSelection
  /** The incoming folder; made when missing, but not what holds it. What is right in it is kept. */
  folder: string
  progress?: (progress: Progress) => void
  signal?: AbortSignal
  clock: Clock
  /** Uniform in [0, 1). */
  random: () => number
  /** Awaited after each GiB of new bytes with the bytes still to come; throws to end the download. */
  space?: (bytesToGo: number) => Promise<void>
  /** New bytes between two calls of `space`; default 1 GiB. */
  spaceEveryBytes?: number
  /** Files at once; default 3. */
  parallel?: number
  /** Failed tries of one file in a row before it is given up; default 5. */
  retries?: number
}

/**
 * Brings exactly the files of a selection to a folder and checks every hash; files there that are not of the
 * selection are removed. What is complete after a failure stays, and the next call goes on from it. Throws
 * HubError, PathError, what `space` throws, or the signal's reason.
 */
export async function downloadFromHub (options: DownloadOptions): Promise<ModelManifest> {
  const { selection, folder, clock, random } = options
  await prepare(folder, selection.files)
  const stop = new AbortController()
  const abort = (): void => { stop.abort(options.signal?.reason) }
  if (options.signal?.aborted === true) abort()
  options.signal?.addEventListener('abort', abort, { once: true })
  const tally = new Tally(selection, options.progress ?? (() => undefined))
  const wrote = spaceWatch(options, tally)
  const { client, retries = 5 } = options
  const job: Job = { client, selection, folder, clock, random, retries, signal: stop.signal, tally, wrote }
  try {
    const files = await fetchAll(job, options.parallel ?? 3, stop)
    const { modelId, commit, totalBytes } = selection
    return { modelId, revision: commit, totalBytes, chunkBytes: CHUNK_BYTES, files }
  } finally {
    options.signal?.removeEventListener('abort', abort)
  }
}

/** Fetches all files, small ones first, some at once; the first failure stops the others. */
async function fetchAll (job: Job, parallel: number, stop: AbortController): Promise<ManifestFile[]> {
  const queue = [...job.selection.files].sort((a, b) => a.size - b.size)
  const done = new Map<string, ManifestFile>()
  const work = async (): Promise<void> => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
      job.signal.throwIfAborted()
      done.set(file.path, await fetchFile(job, file))
    }
  }
  const workers = Array.from({ length: parallel }, () => work().catch((error: unknown) => {
    // The first reason counts; what the others fail with follows from it.
    stop.abort(error)
  }))
  await Promise.all(workers)
  job.signal.throwIfAborted()
  // The order of manifests.
  return [...done.values()].sort((a, b) => a.path < b.path ? -1 : 1)
}

/** Calls `space` each time so many bytes more were written. */
function spaceWatch (options: DownloadOptions, tally: Tally): (bytes: number) => Promise<void> {
  const { space, spaceEveryBytes = GIB } = options
  let since = 0
  return async (bytes) => {
    since += bytes
    if (space === undefined || since < spaceEveryBytes) return
    since = 0
    await space(tally.bytesToGo)
  }
}

/** Makes the folder, or removes what earlier selections left in it. */
async function prepare (folder: string, files: readonly HubFile[]): Promise<void> {
  await inFolder(folder, [], true, async () => {})
  await keepOnly(folder, new Set(files.map(({ path }) => path)))
}
