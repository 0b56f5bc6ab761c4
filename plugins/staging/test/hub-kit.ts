import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { commitOf, describe, found, list } from './hub-kit-answers.js'
import type { Commit } from './hub-kit-answers.js'

export interface HubModel {
  /** Contents by path in the repository. */
  files: Record<string, Buffer | string>
  /**
   * Paths in LFS, which are listed with their sha256 and redirected to the CDN. Default: files with a weights
   * suffix (.onnx, .onnx_data, .bin, .gguf, .safetensors, .pt).
   */
  lfs?: string[]
  licence?: string
  languages?: string[]
}

/** `hub` serves the API and small files, `cdn` the LFS files. */
export type HubOrigin = 'hub' | 'cdn'

export interface HubRequest {
  origin: HubOrigin
  /** `api` for requests for model metadata; `file` for requests for a file, even if they are redirected. */
  kind: 'api' | 'file'
  /** The request target, still percent-encoded. */
  url: string
  /** Path in the repository; empty for the API. */
  path: string
  headers: IncomingHttpHeaders
  status: number
  /** Body bytes written to the socket. */
  sent: number
}

/** Faults to inject; all fields are optional and can be combined. Set as `hub.faults`. */
export interface HubFaults {
  /** Limits the faults to matching requests. */
  only?: (request: HubRequest) => boolean
  /**
   * Number of faulty requests, unlimited by default. Body faults (from `cutAfter` to `contentRange`) count
   * responses with file bytes; other faults count every request, including redirects.
   */
  times?: number
  /** Responds with this status (no redirect, no bytes), e.g. 429 or 500. */
  status?: number
  /** `Retry-After` for `status`. */
  retryAfter?: string
  /** `X-Error-Code` for `status`, e.g. `GatedRepo`. */
  errorCode?: string
  /** Responds 401 without a token and 403 with one, like a gated model. */
  gated?: boolean
  /** Never responds to a request. */
  mute?: boolean
  /** Closes the connection after this many body bytes. */
  cutAfter?: number
  /** Stops sending after this many body bytes, but keeps the connection open. */
  stallAfter?: number
  bytesPerSecond?: number
  /** Inverts the byte at this offset of the file. */
  flipAt?: number
  /** Sets `Content-Encoding` without encoding the body. */
  encoding?: string
  /** Multiplies `Content-Length` and the number of bytes sent. */
  lengthFactor?: number
  /** The body (chunked, without a length) never ends. */
  endless?: boolean
  /** Responds with 200 and the complete file to a Range request. */
  ignoreRange?: boolean
  /** Replaces `Content-Range`. */
  contentRange?: string
  /** Replaces sizes in the API; bytes by path. */
  sizes?: Record<string, number>
  /** Replaces the sha256 of LFS files in the API; hex by path. */
  hashes?: Record<string, string>
  /** Replaces the CDN in `Location` of LFS files. */
  redirect?: string
  /** Replaces `X-Linked-Size`. */
  linkedSize?: string
  /** Replaces `X-Linked-Etag`. */
  linkedEtag?: string
  /** Replaces the body of the API's file list. */
  apiBody?: string
  /** Replaces the body of the API's revision. */
  infoBody?: string
  /** Replaces the body of the API's search result. */
  listBody?: string
}

export interface HubOptions {
  /** Model id (`org/name`) -> contents of branch `main`. */
  models: Record<string, HubModel>
  /** Faults at the start; `hub.faults` can change them later. */
  faults?: HubFaults
  /** New model ids by old id; a request for an old id gets 307 with a relative Location. */
  renames?: Record<string, string>
  /** Bearer token that the hub requires, else 401. The CDN never requires it. */
  token?: string
  /** If false, the hub itself serves LFS files with 200. Default true. */
  cdn?: boolean
  /** If true, the file list also marks LFS files as stored in Xet. */
  xet?: boolean
}

export interface FakeHub {
  /** Base URL of the API and of small files; pass it to `createHubClient` as `url`. */
  readonly url: string
  /** Base URL of the second origin, which serves LFS files. */
  readonly cdnUrl: string
  /** `host:port` of the second origin, for `redirectHosts`. */
  readonly cdnHost: string
  faults: HubFaults
  /** Every request so far, oldest first. */
  readonly requests: HubRequest[]
  /** Body bytes sent so far, of one path if given. */
  sent (path?: string): number
  /** Requests for this file that were answered with bytes (status 200 or 206). */
  fetches (path: string): HubRequest[]
  /** Adds a commit to `main`; older ones stay available. Returns the new commit. */
  setModel (modelId: string, model: HubModel): string
  /** The newest commit id of `main`. */
  commit (modelId: string): string
  /** Clears requests and counts. */
  reset (): void
  /** Closes both servers and all connections. */
  close (): Promise<void>
}

type Head = (status: number, headers: Record<string, string>) => ServerResponse

const BODY_FAULTS = new Set(['cutAfter', 'stallAfter', 'bytesPerSecond', 'flipAt', 'encoding', 'lengthFactor',
  'endless', 'ignoreRange', 'contentRange'])
const JSON_TYPE = { 'content-type': 'application/json' }
const PIECE_BYTES = 65_536

/**
 * Starts two local servers that behave like a public model hub: one with the API
 * (`/api/models/{id}/revision/{rev}`) and small files (`/{id}/resolve/{rev}/{path}`), and a CDN for LFS
 * files. Close it with `t.teardown(() => hub.close())`.
 */
export async function startHub (options: HubOptions): Promise<FakeHub> {
  const hub = new Hub(options)
  await hub.listen()
  return hub
}

class Hub implements FakeHub {
  faults: HubFaults
  readonly requests: HubRequest[] = []
  readonly #options: HubOptions
  readonly #heads = new Map<string, string>()
  /** All commits; the key is `org/name@commit`. */
  readonly #commits = new Map<string, Commit>()
  readonly #servers: Record<HubOrigin, Server>
  readonly #closing = new AbortController()

  constructor (options: HubOptions) {
    this.#options = options
    this.faults = options.faults ?? {}
    for (const [modelId, model] of Object.entries(options.models)) this.setModel(modelId, model)
    const server = (origin: HubOrigin): Server => createServer((request, response) => {
      response.on('error', () => undefined)
      void this.#answer(origin, request, response).catch(() => { response.destroy() })
    })
    this.#servers = { hub: server('hub'), cdn: server('cdn') }
  }

  async listen (): Promise<void> {
    await Promise.all(Object.values(this.#servers).map((server) =>
      new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })))
  }

  get url (): string { return `http://${this.#hostOf('hub')}` }
  get cdnUrl (): string { return `http://${this.cdnHost}` }
  get cdnHost (): string { return this.#hostOf('cdn') }

  setModel (modelId: string, model: HubModel): string {
    const commit = commitOf(model)
    this.#heads.set(modelId, commit.id)
    this.#commits.set(`${modelId}@${commit.id}`, commit)
    return commit.id
  }

  commit (modelId: string): string { return this.#heads.get(modelId) ?? '' }

  fetches (path: string): HubRequest[] {
    return this.requests.filter((r) => r.kind === 'file' && r.path === path &&
      (r.status === 200 || r.status === 206))
  }

  sent (path?: string): number {
    return this.requests.filter((r) => r.kind === 'file' && (path === undefined || r.path === path))
      .reduce((sum, r) => sum + r.sent, 0)
  }

  reset (): void { this.requests.length = 0 }

  async close (): Promise<void> {
    this.#closing.abort()
    await Promise.all(Object.values(this.#servers).map((server) => new Promise<void>((resolve) => {
      server.close(() => { resolve() })
      server.closeAllConnections()
    })))
  }

  #hostOf (origin: HubOrigin): string {
    return `127.0.0.1:${(this.#servers[origin].address() as AddressInfo).port}`
  }

  /** The faults of a request or of a response body; decrements `times`. */
  #faultsFor (request: HubRequest, moment: 'request' | 'body'): HubFaults {
    const { only, times = Infinity, ...faults } = this.faults
    const ofBody = Object.keys(faults).every((name) => BODY_FAULTS.has(name))
    if (ofBody !== (moment === 'body') || times <= 0 || only?.(request) === false) return {}
    this.faults = { ...this.faults, ...times === Infinity ? {} : { times: times - 1 } }
    return faults
  }

  async #answer (origin: HubOrigin, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.url ?? '/'
    const target = new URL(url, 'http://hub').pathname
    const api = /^\/api\/models\/([^/]+\/[^/]+)\/(?:revision|tree)\/(.+)$/.exec(target)
    const file = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(target)
    const path = file === null ? '' : file[3]!.split('/').map(decodeURIComponent).join('/')
    const seen: HubRequest = {
      origin, url, path,
      kind: api !== null || target === '/api/models' ? 'api' : 'file',
      headers: request.headers, status: 0, sent: 0
    }
    this.requests.push(seen)
    const faults = this.#faultsFor(seen, 'request')
    if (faults.mute === true) return
    const head = (status: number, headers: Record<string, string> = {}): ServerResponse => {
      seen.status = status
      return response.writeHead(status, headers)
    }
    const refuse = (status: number, code: string, headers: Record<string, string> = {}): void => {
      head(status, { 'x-error-code': code, 'x-error-message': `the hub says ${code}`, ...headers })
      response.end(JSON.stringify({ error: code }))
    }
    if (faults.status !== undefined) {
      const wait: Record<string, string> =
        faults.retryAfter === undefined ? {} : { 'retry-after': faults.retryAfter }
      refuse(faults.status, faults.errorCode ?? 'Fault', wait)
      return
    }
    const authorization = request.headers.authorization
    if (faults.gated === true) { refuse(authorization === undefined ? 401 : 403, 'GatedRepo'); return }
    const { token } = this.#options
    if (origin === 'hub' && token !== undefined && authorization !== `Bearer ${token}`) {
      return refuse(401, 'RepoNotFound')
    }
    if (target === '/api/models') { head(200, JSON_TYPE).end(this.#search(url, faults)); return }
    const match = api ?? file
    if (match === null) { refuse(404, 'EntryNotFound'); return }
    const modelId = match[1]!
    const renamed = this.#options.renames?.[modelId]
    if (renamed !== undefined) { head(307, { location: url.replace(modelId, renamed) }).end(); return }
    const revision = decodeURIComponent(match[2]!)
    const commit = this.#commits.get(`${modelId}@${revision === 'main' ? this.commit(modelId) : revision}`)
    if (!this.#heads.has(modelId)) { refuse(404, 'RepoNotFound'); return }
    if (commit === undefined) { refuse(404, 'RevisionNotFound'); return }
    if (api !== null) {
      head(200, JSON_TYPE).end(this.#api(target, modelId, commit, faults))
      return
    }
    const stored = commit.files.get(path)
    if (stored === undefined) { refuse(404, 'EntryNotFound'); return }
    const headers: Record<string, string> = { 'x-repo-commit': commit.id, 'accept-ranges': 'bytes' }
    if (origin === 'hub' && stored.lfs) {
      headers['x-linked-size'] = faults.linkedSize ?? String(stored.bytes.length)
      headers['x-linked-etag'] = faults.linkedEtag ?? `"${stored.sha256}"`
      if (this.#options.cdn !== false) {
        head(302, { ...headers, location: faults.redirect ?? `${this.cdnUrl}${url}?signed=1` }).end()
        return
      }
    }
    headers['etag'] = `"${stored.lfs ? stored.sha256 : stored.gitSha1}"`
    const all = { ...faults, ...this.#faultsFor(seen, 'body') }
    await this.#sendFile(seen, response, stored.bytes, headers, all, head)
  }

  #search (url: string, { listBody }: HubFaults): string {
    const models = new Map([...this.#heads].map(([id, head]) => [id, this.#commits.get(`${id}@${head}`)!]))
    return listBody ?? JSON.stringify(found(models, new URL(url, 'http://hub').searchParams))
  }

  #api (target: string, modelId: string, commit: Commit, faults: HubFaults): string {
    if (!target.includes('/tree/')) return faults.infoBody ?? JSON.stringify(describe(modelId, commit))
    return faults.apiBody ?? JSON.stringify(list(commit, faults, this.#options.xet === true))
  }

  async #sendFile (
    seen: HubRequest, response: ServerResponse, bytes: Buffer, headers: Record<string, string>,
    faults: HubFaults, head: Head
  ): Promise<void> {
    const range = /^bytes=(\d+)-(\d*)$/.exec(seen.headers.range ?? '')
    const partial = range !== null && faults.ignoreRange !== true
    const start = partial ? Number(range[1]) : 0
    const end = partial && range[2] !== '' ? Math.min(Number(range[2]) + 1, bytes.length) : bytes.length
    if (partial && start >= bytes.length) {
      head(416, { 'content-range': `bytes */${bytes.length}` }).end()
      return
    }
    const body = Buffer.from(bytes.subarray(start, end))
    const { flipAt } = faults
    if (flipAt !== undefined && flipAt >= start && flipAt < end) body[flipAt - start]! ^= 0xff
    if (partial) headers['content-range'] = faults.contentRange ?? `bytes ${start}-${end - 1}/${bytes.length}`
    if (faults.encoding !== undefined) headers['content-encoding'] = faults.encoding
    const length = body.length * (faults.lengthFactor ?? 1)
    if (faults.endless !== true) headers['content-length'] = String(length)
    head(partial ? 206 : 200, headers)
    response.flushHeaders()
    const wanted = faults.endless === true ? Infinity : length
    await this.#sendBytes(seen, response, body, wanted, faults)
  }

  /** Sends the body, then filler up to `wanted` bytes. */
  async #sendBytes (
    seen: HubRequest, response: ServerResponse, body: Buffer, wanted: number, faults: HubFaults
  ): Promise<void> {
    const { cutAfter = Infinity, stallAfter = Infinity, bytesPerSecond: rate } = faults
    const stop = Math.min(cutAfter, stallAfter, wanted)
    const piece = rate === undefined ? PIECE_BYTES : Math.max(1, Math.floor(rate / 20))
    for (let at = 0; at < stop && !response.destroyed;) {
      const size = Math.min(piece, stop - at)
      const data = at < body.length ? body.subarray(at, Math.min(at + size, body.length)) : Buffer.alloc(size)
      seen.sent += data.length
      at += data.length
      if (!response.write(data)) await this.#drained(response)
      if (rate !== undefined && at < stop) {
        await sleep(data.length / rate * 1000, undefined, { signal: this.#closing.signal })
      }
    }
    if (stop === wanted) { response.end(); return }
    if (stop !== cutAfter) return
    // Flush before closing; otherwise the client may receive fewer than `cutAfter` bytes.
    await new Promise<void>((resolve) => { response.write('', () => { resolve() }) })
    response.socket?.end()
  }

  async #drained (response: ServerResponse): Promise<void> {
    await new Promise<void>((resolve) => {
      const go = (): void => {
        response.off('drain', go).off('close', go)
        resolve()
      }
      response.on('drain', go).on('close', go)
    })
  }
}
