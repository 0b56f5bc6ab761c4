import { HubError } from './types.js'
import type { HubFile } from './types.js'

/** Header of an answer, lower-case names, as undici gives them. */
export type Headers = Record<string, string | string[] | undefined>

/** Longest wait asked for by a hub that is believed; its windows are five minutes. */
const LONGEST_WAIT_MS = 600_000
const TOKEN_HINT = 'set SVC_HUB_TOKEN (or HF_TOKEN) for the store host to a token that may ' +
  'read it; for another hub than huggingface.co, SVC_HUB_TOKEN_HOST to its host'

export function header (headers: Headers, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

export interface HubRequest {
  what: string
  host: string
  /** Whether that was the hub itself, not a host it led to. */
  atHub: boolean
}

export function statusError (status: number, headers: Headers, asked: HubRequest, nowMs: number): HubError {
  const said = `${asked.host} answered ${status} for ${asked.what}`
  if (status === 429) {
    const retryAfterMs = waitOf(headers, nowMs)
    const wait = retryAfterMs === null ? '' : `; it asks to wait ${Math.ceil(retryAfterMs / 1000)} s`
    return new HubError('rate_limited', `${said}: too many requests${wait}. A token raises the limit`,
      { retryAfterMs })
  }
  if (status === 416) return new HubError('no_range', `${said}: it has no bytes from that offset on`)
  // Links to other hosts are signed for a while: a new try gets a new link.
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
  // To those it does not know, the hub answers 401 for models that are private and for ones that never were.
  if (status === 401 || code === 'RepoNotFound') {
    return new HubError(code === 'RepoNotFound' ? 'not_found' : 'gated',
      `${said}: there is no such model, or it is private. Check the name, or ${TOKEN_HINT}`)
  }
  if (status === 404 || status === 410) {
    const missing = code === 'RevisionNotFound' ? ': there is no such revision' : ''
    return new HubError('not_found', said + missing)
  }
  return new HubError('bad_answer', said)
}

/** How long the answer asks to wait: `Retry-After` in seconds or as a date, else `t=` of `RateLimit`. */
function waitOf (headers: Headers, nowMs: number): number | null {
  const after = header(headers, 'retry-after')
  const reset = /(?:^|[;,\s])t=(\d{1,9})\b/.exec(header(headers, 'ratelimit') ?? '')?.[1]
  const seconds = after !== undefined && /^\d{1,9}$/.test(after.trim()) ? after.trim() : undefined
  const date = after === undefined || seconds !== undefined ? NaN : Date.parse(after) - nowMs
  const ms = seconds !== undefined ? Number(seconds) * 1000 : Number.isNaN(date) ? Number(reset) * 1000 : date
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), LONGEST_WAIT_MS)
}

/** Throws HubError `changed` where headers of `resolve` name another file than the selection does. */
export function checkLinked (headers: Headers, commit: string, file: HubFile): void {
  const differs = (what: string, has: string, wanted: string | number): HubError =>
    new HubError('changed', `${file.path}: the hub names ${what} ${has.slice(0, 80)} where ${wanted} was ` +
      'selected; start the download again')
  const size = header(headers, 'x-linked-size')
  if (size !== undefined && Number(size) !== file.size) throw differs('the size', size, file.size)
  const at = header(headers, 'x-repo-commit')
  if (at !== undefined && at !== commit) throw differs('commit', at, commit)
  const etag = (header(headers, 'x-linked-etag') ?? header(headers, 'etag') ?? '').replace(/^W\/|"/g, '')
  const wanted = etag.length === 64 ? file.sha256 : etag.length === 40 ? file.gitSha1 : null
  if (wanted === null || !/^[0-9a-f]+$/i.test(etag)) return
  if (etag.toLowerCase() !== wanted) throw differs('the hash', etag, wanted)
}

/** Throws HubError unless the head of an answer fits the bytes of a file from `start` on. */
export function checkBodyHead (status: number, headers: Headers, file: HubFile, start: number): void {
  if (status !== 200 && status !== 206) {
    throw new HubError('bad_answer', `the server answered ${status} for the bytes of ${file.path}`)
  }
  const encoding = header(headers, 'content-encoding')
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new HubError('encoding', `${file.path} comes with content-encoding ${encoding.slice(0, 40)}, ` +
      'which is refused: the bytes would not be the file\'s')
  }
  if (status === 200 && start > 0) {
    throw new HubError('no_range', `the server sends all of ${file.path} where byte ${start} was ` +
      'asked for; try another mirror (model_store.hub.url), or pull a folder')
  }
  if (status === 206) {
    const range = header(headers, 'content-range') ?? 'none'
    const wanted = `bytes ${start}-${file.size - 1}/${file.size}`
    if (range !== wanted) {
      throw new HubError('bad_answer', `${file.path} comes with content-range ${range.slice(0, 80)} ` +
        `instead of ${wanted}`)
    }
  }
  const length = header(headers, 'content-length')
  const wanted = file.size - start
  if (length === undefined || Number(length) === wanted) return
  const reason = Number(length) > wanted ? 'too_long' : 'changed'
  throw new HubError(reason, `${file.path}: the server is about to send ${length.slice(0, 20)} bytes ` +
    `where ${wanted} are missing`)
}
