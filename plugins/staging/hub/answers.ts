import { HubError, type HubFile } from './types.js'

/** Response headers with lower-case names, as undici returns them. */
export type Headers = Record<string, string | string[] | undefined>

/** Upper bound in ms for a hub's Retry-After; the hub's rate limit windows are five minutes. */
const LONGEST_WAIT_MS = 600_000
const TOKEN_HINT = 'set SVC_HUB_TOKEN (or HF_TOKEN) on the store host to a token with access; ' +
  'for hubs other than huggingface.co, also set SVC_HUB_TOKEN_HOST to the host of the hub'

export function header (headers: Headers, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

export interface HubRequest {
  what: string
  host: string
  /** True if the hub itself answered; false if the target of a redirect to another host did. */
  atHub: boolean
}

export function statusError (status: number, headers: Headers, asked: HubRequest, nowMs: number): HubError {
  const said = `${asked.host} answered ${status} for ${asked.what}`
  if (status === 429) {
    const retryAfterMs = waitOf(headers, nowMs)
    const wait = retryAfterMs === null ? '' : `; retry after ${Math.ceil(retryAfterMs / 1000)} s`
    return new HubError('rate_limited', `${said}: too many requests${wait}. A token raises the limit`,
      { retryAfterMs })
  }
  if (status === 416) return new HubError('no_range', `${said}: the file has no bytes at that offset`)
  // Retry all errors of redirect targets: the signed URL may have expired, and a retry gets a new one.
  if (status === 408 || status >= 500 || !asked.atHub) {
    return new HubError('unavailable', said, { retryAfterMs: waitOf(headers, nowMs) })
  }
  return refusal(status, header(headers, 'x-error-code'), said)
}

function refusal (status: number, code: string | undefined, said: string): HubError {
  if (status === 403 || code === 'GatedRepo') {
    return new HubError('gated',
      `${said}: the model is gated. Accept its terms on its page, then ${TOKEN_HINT}`)
  }
  // Without access, the hub answers 401 for private models and for unknown ones alike.
  if (status === 401 || code === 'RepoNotFound') {
    return new HubError(code === 'RepoNotFound' ? 'not_found' : 'gated',
      `${said}: the model does not exist or is private. Check the name, or ${TOKEN_HINT}`)
  }
  if (status === 404 || status === 410) {
    const missing = code === 'RevisionNotFound' ? ': the revision does not exist' : ''
    return new HubError('not_found', said + missing)
  }
  return new HubError('bad_answer', said)
}

/** The requested wait in ms, from `Retry-After` (seconds or a date) or else from `t=` in `RateLimit`. */
function waitOf (headers: Headers, nowMs: number): number | null {
  const after = header(headers, 'retry-after')
  const reset = /(?:^|[;,\s])t=(\d{1,9})\b/.exec(header(headers, 'ratelimit') ?? '')?.[1]
  const seconds = after !== undefined && /^\d{1,9}$/.test(after.trim()) ? after.trim() : undefined
  const date = after === undefined || seconds !== undefined ? NaN : Date.parse(after) - nowMs
  const ms = seconds !== undefined ? Number(seconds) * 1000 : Number.isNaN(date) ? Number(reset) * 1000 : date
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), LONGEST_WAIT_MS)
}

/** Throws HubError `changed` if the hub's headers report another size, commit or hash than was selected. */
export function checkLinked (headers: Headers, commit: string, file: HubFile): void {
  const differs = (what: string, has: string, wanted: string | number): HubError =>
    new HubError('changed', `${file.path}: the hub reports ${what} ${has.slice(0, 80)} ` +
      `instead of ${wanted}; start the download again`)
  const size = header(headers, 'x-linked-size')
  if (size !== undefined && Number(size) !== file.size) throw differs('size', size, file.size)
  const at = header(headers, 'x-repo-commit')
  if (at !== undefined && at !== commit) throw differs('commit', at, commit)
  const etag = (header(headers, 'x-linked-etag') ?? header(headers, 'etag') ?? '').replace(/^W\/|"/g, '')
  const wanted = etag.length === 64 ? file.sha256 : etag.length === 40 ? file.gitSha1 : null
  if (wanted === null || !/^[0-9a-f]+$/i.test(etag)) return
  if (etag.toLowerCase() !== wanted) throw differs('hash', etag, wanted)
}

/** Throws HubError unless status and headers fit a response with the file's bytes from `start` on. */
export function checkBodyHead (status: number, headers: Headers, file: HubFile, start: number): void {
  if (status !== 200 && status !== 206) {
    throw new HubError('bad_answer', `the server answered ${status} for the bytes of ${file.path}`)
  }
  const encoding = header(headers, 'content-encoding')
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new HubError('encoding', `${file.path} has content-encoding ${encoding.slice(0, 40)}, ` +
      'which svc does not accept: the bytes would not match the file')
  }
  if (status === 200 && start > 0) {
    throw new HubError('no_range', `the server ignored the range of ${file.path} from byte ${start}; ` +
      'use another mirror (model_store.hub.url), or pull a folder')
  }
  if (status === 206) {
    const range = header(headers, 'content-range') ?? 'none'
    const wanted = `bytes ${start}-${file.size - 1}/${file.size}`
    if (range !== wanted) {
      throw new HubError('bad_answer', `${file.path} has content-range ${range.slice(0, 80)} ` +
        `instead of ${wanted}`)
    }
  }
  const length = header(headers, 'content-length')
  const wanted = file.size - start
  if (length === undefined || Number(length) === wanted) return
  const reason = Number(length) > wanted ? 'too_long' : 'changed'
  throw new HubError(reason, `${file.path}: the response has ${length.slice(0, 20)} bytes ` +
    `instead of ${wanted}`)
}
