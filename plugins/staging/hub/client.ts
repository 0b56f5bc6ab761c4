import { backoffMs, delay } from '../../../kernel/index.js'
import { modelIdProblem } from '../files/names.js'
import { checkBodyHead, checkLinked } from './answers.js'
import { checkSelected, describe, searchHub } from './listing.js'
import { selectFiles } from './select.js'
import { weightsIn } from './select-weights.js'
import {
  HUB_LIMITS, HubError, type HubSearchResult, type HubClientOptions, type HubFile, type HubLimits,
  type HubSelection, type Pinned, type ResolveOptions, type Weights
} from './types.js'
import type { HubHttp } from './http.js'

const PAUSES = { minMs: 1000, maxMs: 30_000 }
const LONGEST_REVISION = 200

/** Creates a hub client. Throws TypeError for an invalid URL. */
export const createHubClient = (options: HubClientOptions): HubClient => new Client(options)

/** A client of the public model hub or of a server with the same API. All methods throw HubError. */
export type HubClient = Pick<Client, 'url' | 'resolve' | 'look' | 'search' | 'open' | 'close'>

/** Loads undici and the hub library on the first request, so that svc starts fast. */
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

  async resolve (modelId: string, options: ResolveOptions = {}): Promise<HubSelection> {
    return (await this.look(modelId, options)).selection
  }

  async look (
    modelId: string, options: ResolveOptions = {}
  ): Promise<{ selection: HubSelection, weights: Weights[] }> {
    const problem = modelIdProblem(modelId)
    if (problem !== null) throw new HubError('bad_request', problem)
    const { signal } = options
    const revision = options.revision ?? 'main'
    if (revision === '' || revision.length > LONGEST_REVISION || /[\x00-\x20\x7f\\]|\.\./.test(revision)) {
      throw new HubError('bad_request', 'the revision must be a branch, a tag or a commit')
    }
    const http = await this.#http()
    const fetch = http.libraryFetch(`${modelId}@${revision}`, signal)
    const info = await this.#patiently(async () => await describe(this.url, fetch, modelId, revision), signal)
    const files = selectFiles(info.files, options)
    const totalBytes = checkSelected(files)
    const { commit, licence, languages } = info
    const selection = { modelId, commit, files, totalBytes, licence, languages }
    return { selection, weights: weightsIn(info.files) }
  }

  /** Searches by model name; models in a supported format come first, at most `limit` per format. */
  async search (
    query: string, { limit, signal }: { limit: number, signal?: AbortSignal }
  ): Promise<HubSearchResult[]> {
    const http = await this.#http()
    const fetch = http.libraryFetch(`a search for ${JSON.stringify(query)}`, signal)
    return await this.#patiently(async () => await searchHub(this.url, fetch, query, limit), signal)
  }

  /** Streams a file from offset `start` to its end; throws if the hub sends too many or too few bytes. */
  async open (
    { modelId, commit }: Pinned, file: HubFile, { start, signal }: { start: number, signal?: AbortSignal }
  ): Promise<AsyncIterable<Uint8Array>> {
    const path = file.path.split('/').map(encodeURIComponent).join('/')
    const url = new URL(`${this.url}/${modelId}/resolve/${commit}/${path}`)
    const headers: Record<string, string> = start > 0 ? { range: `bytes=${start}-` } : {}
    const http = await this.#http()
    return await http.bytes({
      url, headers, what: `${modelId}/${file.path}`, signal,
      onHub: (answered) => { checkLinked(answered, commit, file) },
      check: (status, answered) => { checkBodyHead(status, answered, file, start) }
    }, file.size - start)
  }

  async close (): Promise<void> { await (await this.#opened)?.close() }

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
