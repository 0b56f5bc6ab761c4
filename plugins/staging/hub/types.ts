import type { Clock, Logger, Lookup } from '../../../kernel/index.js'
import type { LocalFile } from '../files/bring.js'
import { SourceFault } from '../transfer/types.js'
import type { Answers } from '../routes.js'

/** A file in a hub repository. At least one hash is set; both are lowercase hex. */
export interface HubFile {
  path: string, size: number, sha256: string | null
  /** The git blob id; only for files that the hub stores in git itself. */
  gitSha1: string | null
}

export type LocalHubFile = HubFile & LocalFile

/** The chosen commit and files, as plain data that survives JSON. */
export interface HubSelection {
  modelId: string, commit: string, files: HubFile[], totalBytes: number, licence: string | null
  languages: string[]
}

export type Pinned = Pick<HubSelection, 'modelId' | 'commit'>

export interface Weights { name: string, bytes: number, engine: 'gguf' | 'onnx', paths: string[] }

export type HubSearchResult = Omit<Answers['searchHub']['models'][number], 'here'>

export interface Wanted {
  /** Case-sensitive globs on the path (`*`, `?`, `**`). */
  allow?: readonly string[] | null
  /** The precision: `q4`, `fp16`, `q8`, `fp32`, … for ONNX; `Q4_K_M`, … for GGUF. */
  variant?: string | null
}

export interface ResolveOptions extends Wanted {
  /** Branch, tag or commit; `main` by default. */
  revision?: string | null
  signal?: AbortSignal
}

/** Limits of one hub client. Times in milliseconds. */
export const HUB_LIMITS = {
  connectMs: 5000,
  headersMs: 15_000,
  /** Longest wait for the next piece of a body. */
  idleMs: 20_000,
  redirects: 5,
  metadataBytes: 32 * 1024 * 1024,
  /** Retries of `resolve` after a temporary failure. */
  retries: 2
}
export type HubLimits = typeof HUB_LIMITS

export interface HubClientOptions {
  url: string
  /** Bearer token, sent only to the hub's own origin. */
  token?: string | undefined
  /**
   * Redirect targets that the operator trusts: `host`, `host:port` or `*.example.org`. All may use plain
   * http, but only hosts named in full may have addresses in a private network.
   */
  redirectHosts: readonly string[]
  clock: Clock
  /** Random number, uniform in [0, 1). */
  random: () => number
  log?: Pick<Logger, 'debug' | 'warn'>
  limits?: Partial<HubLimits>
  /** Resolves a host name to all its addresses; default: the system's resolver. */
  lookup?: Lookup
}

/**
 * `gated`: the terms must be accepted, or a token is missing. `unavailable`: 5xx, or a broken connection.
 * `changed`: the hub's files differ from the selection. `no_range`: the server ignored the range.
 * `bad_answer`: an invalid API response. `bad_request`: an invalid model id, revision or pattern.
 * `ambiguous`: several voices or models; `allow` must name one.
 */
export type HubReason =
  | 'not_found' | 'gated' | 'rate_limited' | 'unavailable' | 'stalled' | 'changed' | 'no_range' | 'too_long'
  | 'refused_redirect' | 'bad_answer' | 'encoding' | 'refused_format' | 'ambiguous' | 'bad_request'

const RETRYABLE = new Set<HubReason>(['rate_limited', 'unavailable', 'stalled', 'no_range'])

export class HubError extends SourceFault {
  override readonly reason: HubReason
  /** Wait in ms that the hub requests; null if it does not request a wait. */
  override readonly retryAfterMs: number | null

  constructor (
    reason: HubReason, message: string, options: { retryAfterMs?: number | null, cause?: unknown } = {}
  ) {
    super(message, options.cause)
    this.name = 'HubError'
    this.reason = reason
    this.retryAfterMs = options.retryAfterMs ?? null
  }

  override get retryable (): boolean { return RETRYABLE.has(this.reason) }

  override get startOver (): boolean { return this.reason === 'no_range' }
}
