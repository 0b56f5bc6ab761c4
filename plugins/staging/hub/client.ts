import { backoffMs, delay } from '../../../kernel/index.js'
import { modelIdProblem } from '../files/names.js'
import { checkBodyHead, checkLinked } from './answers.js'
import { checkSelected, describe, searchHub } from './listing.js'
import { selectFiles } from './select.js'
import { weightsIn } from './select-weights.js'
import { HUB_LIMITS, HubError } from './types.js'
import type { Get, HubHttp, LibraryFetch } from './http.js'
import type {
  Found, HubClientOptions, HubFile, HubLimits, HubSelection, Pinned, ResolveOptions, Weights
} from './types.js'

type Bytes = AsyncGenerator<Uint8Array, void, undefined>
/** What is asked for, whatever its address. */
type Asked = Omit<Get, 'url' | 'headers'>

const PAUSES = { minMs: 1000, maxMs: 30_000 }
const LONGEST_REVISION = 200
/** Most bytes of one answer of Xet's storage, which are up to 64 MiB of compressed chunks. */
const XET_BYTES = 128 * 1024 * 1024

/** A client of the public model hub; see HubClientOptions. Throws TypeError for a URL that is none. */
export const createHubClient = (options: HubClientOptions): HubClient => new Client(options)

/** The public model hub, or one that speaks its API. All methods throw HubError. */
export type HubClient = Pick<Client, 'url' | 'resolve' | 'look' | 'search' | 'open' | 'close'>

/** Loads undici and the hub's library with its first request: a boot makes none. */
class Client {
  readonly url: string
  readonly #options: HubClientOptions
  readonly #base: URL
  readonly #limits: HubLimits
  #opened: Promise<HubHttp> | undefined

  constructor (options: HubClientOptions) {
    this.url = options.url.replace(/(?<!\/)\/+$/, '')
    this.#options = options
    this.#limits = { ...HUB_LIMITS, ...options.limits }
    this.#base = new URL(this.url)
  }

  async #http (): Promise<HubHttp> {
    this.#opened ??= import('./http.js').then(({ HubHttp }) =>
      new HubHttp(this.#base, this.#options, this.#limits))
    return await this.#opened
  }

  /** Looks a model up, pins its commit and chooses files. */
  async resolve (modelId: string, options: ResolveOptions = {}): Promise<HubSelection> {
    return (await this.look(modelId, options)).selection
  }

  /** The same, and which weights the model has to choose from. */
  async look (
    modelId: string, options: ResolveOptions = {}
  ): Promise<{ selection: HubSelection, weights: Weights[] }> {
    const problem = modelIdProblem(modelId)
    if (problem !== null) throw new HubError('bad_request', problem)
    const { signal } = options
    const revision = options.revision ?? 'main'
    if (revision === '' || revision.length > LONGEST_REVISION || /[\x00-\x20\x7f\\]|\.\./.test(revision)) {
      throw new HubError('bad_request', 'a revision is a branch, a tag or a commit')
    }
    const http = await this.#http()
    const info = await this.#patiently(async () => {
      const via = http.libraryFetch({ what: `${modelId}@${revision}`, signal }, this.#limits.metadataBytes)
      return await describe(this.url, via, modelId, revision)
    }, signal)
    const files = selectFiles(info.files, options)
    const totalBytes = checkSelected(files)
    const { commit, licence, languages } = info
    const selection = { modelId, commit, revision, files, totalBytes, licence, languages }
    return { selection, weights: weightsIn(info.files) }
  }

  /** Models whose names have these words: what runs here first, at most `limit` of each format. */
  async search (
    query: string, { limit, signal }: { limit: number, signal?: AbortSignal }
  ): Promise<Found[]> {
    const http = await this.#http()
    const asked = { what: `a search for ${JSON.stringify(query)}`, signal }
    return await this.#patiently(async () => await searchHub(this.url,
      () => http.libraryFetch(asked, this.#limits.metadataBytes), query, limit), signal)
  }

  /** Opens a file at byte `start`: exactly its bytes from there on, or an error in between. */
  async open (
    selection: Pinned, file: HubFile, { start, signal }: { start: number, signal?: AbortSignal }
  ): Promise<AsyncIterable<Uint8Array>> {
    const { modelId, commit } = selection
    const asked: Asked = {
      what: `${modelId}/${file.path}`, signal, onHub: (headers) => { checkLinked(headers, commit, file) }
    }
    const fromXet = file.xet === true ? await this.#xet(selection, file, start, asked) : undefined
    return exactly(fromXet ?? await this.#plain(selection, file, start, asked), file, start)
  }

  async close (): Promise<void> {
    await (await this.#opened)?.close()
  }

  async #plain (
    { modelId, commit }: Pinned, file: HubFile, start: number, asked: Asked
  ): Promise<AsyncIterable<Uint8Array>> {
    const path = file.path.split('/').map(encodeURIComponent).join('/')
    const url = new URL(`${this.url}/${modelId}/resolve/${commit}/${path}`)
    const headers: Record<string, string> = start > 0 ? { range: `bytes=${start}-` } : {}
    const http = await this.#http()
    return await http.bytes({ ...asked, url, headers }, file.size - start, (status, answered) => {
      checkBodyHead(status, answered, file, start)
    })
  }

  /** The bytes out of Xet's deduplicated storage; undefined where the hub gives the file by itself only. */
  async #xet (
    { modelId, commit }: Pinned, { path }: HubFile, start: number, asked: Asked
  ): Promise<AsyncIterable<Uint8Array> | undefined> {
    const { downloadFile, fileDownloadInfo } = await import('@huggingface/hub')
    const via = (await this.#http()).libraryFetch(asked, XET_BYTES)
    const at = { repo: { type: 'model', name: modelId }, path, revision: commit, hubUrl: this.url,
      fetch: via.fetch } as const
    try {
      const downloadInfo = await fileDownloadInfo(at)
      // One request at a time: several would hold up to 256 MiB in memory.
      const blob = downloadInfo?.xet === undefined
        ? null : await downloadFile({ ...at, downloadInfo, parallelDownloads: false })
      if (blob !== null) return bytesOf(blob.slice(start), asked, via)
    } catch (error) {
      via.end()
      throw whyNot(asked, via, error)
    }
    via.end()
    return undefined
  }

  /** Tries again what may succeed later, after the pause the hub asks for. */
  async #patiently<T> (attempt: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const { clock, random, log } = this.#options
    for (let failures = 1; ; failures++) {
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof HubError) || !error.retryable || failures > this.#limits.retries) throw error
        const waitMs = Math.max(error.retryAfterMs ?? 0, backoffMs(failures, PAUSES, random()))
        log?.warn({ reason: error.reason, waitMs: Math.round(waitMs) }, error.message)
        await delay(clock, waitMs, signal)
      }
    }
  }
}

async function * bytesOf (blob: Blob, asked: Asked, via: LibraryFetch): Bytes {
  try {
    yield * blob.stream() as unknown as AsyncIterable<Uint8Array>
  } catch (error) {
    throw whyNot(asked, via, error)
  } finally {
    via.end()
  }
}

/** Why the library failed. What it could not make sense of may be right in another try. */
function whyNot ({ what, signal }: Asked, via: LibraryFetch, error: unknown): Error {
  if (signal?.aborted === true) return signal.reason as Error
  return via.failure() ?? new HubError('unavailable', `${what}: ${String(error)}`, { cause: error })
}

/** The bytes of a file from `start` to its end, no fewer. Throws HubError `unavailable`. */
async function * exactly (bytes: AsyncIterable<Uint8Array>, { path, size }: HubFile, start: number): Bytes {
  let at = start
  for await (const part of bytes) {
    at += part.length
    yield part
  }
  if (at < size) {
    throw new HubError('unavailable', `the connection ended after ${at} of ${size} bytes of ${path}`)
  }
}
