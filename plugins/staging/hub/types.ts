import type { Clock, Logger, Lookup } from '../../../kernel/index.js'
import type { LocalFile } from '../files/bring.js'
import { SourceFault } from '../transfer/types.js'
import type { Answers } from '../routes.js'

/** A file of a model on the hub. One of the hashes is always there; both are lowercase hex. */
export interface HubFile {
  path: string
  size: number
  sha256: string | null
  /** The git blob id, for files the hub keeps in git itself. */
  gitSha1: string | null
}

export type LocalHubFile = HubFile & LocalFile

/** Exactly what is to be fetched of a model: plain data that survives JSON. */
export interface HubSelection {
  modelId: string
  /** 40 hex digits. */
  commit: string
  /** What was asked for, e.g. `main`. */
  revision: string
  files: HubFile[]
  totalBytes: number
  licence: string | null
  languages: string[]
}

export type Pinned = Pick<HubSelection, 'modelId' | 'commit'>

export interface Weights { name: string, bytes: number, engine: 'gguf' | 'onnx', paths: string[] }

export type HubSearchResult = Omit<Answers['searchHub']['models'][number], 'here'>

export interface Wanted {
  /** Globs on the path (`*`, `?`, `**`), case-sensitive. */
  allow?: readonly string[] | null
  /** The precision: `q4`, `fp16`, `q8`, `fp32`, … for ONNX; `Q4_K_M`, … for GGUF. */
  variant?: string | null
}

export interface ResolveOptions extends Wanted {
  /** Branch, tag or commit; `main` where none is given. */
  revision?: string | null
  signal?: AbortSignal
}

/** Bounds of one client. Times in milliseconds. */
export const HUB_LIMITS = {
  connectMs: 5000,
  /** From the request to the head of the answer. */
  headersMs: 15_000,
  /** Between two pieces of a body. */
  idleMs: 20_000,
  redirects: 5,
  metadataBytes: 32 * 1024 * 1024,
  /** Further tries of `resolve` after a failure that may pass. */
  retries: 2
}
export type HubLimits = typeof HUB_LIMITS

export interface HubClientOptions {
  url: string
  /** Sent as bearer token to the hub's own origin, never to any other. */
  token?: string | undefined
  /**
   * Hosts the operator trusts as targets of redirects: `host`, `host:port` or `*.example.org`. Named
   * ones may be plain http; those named in full may be in the own network.
   */
  redirectHosts: readonly string[]
  clock: Clock
  /** Uniform in [0, 1). */
  random: () => number
  log?: Pick<Logger, 'debug' | 'warn'>
  limits?: Partial<HubLimits>
  /** Resolves a host name to all its addresses; default: the system's resolver. */
  lookup?: Lookup
}

/**
 * `gated`: its terms must be accepted, or a token is missing. `unavailable`: 5xx, or a broken connection.
 * `changed`: what the hub has is not what was selected. `no_range`: a whole file comes where a part was asked
 * for. `bad_answer`: its API never gives such a one. `bad_request`: the model id, the revision or a pattern
 * is malformed. `ambiguous`: several voices or models; `allow` must say which.
 */
export type HubReason =
  | 'not_found' | 'gated' | 'rate_limited' | 'unavailable' | 'stalled' | 'changed' | 'no_range' | 'too_long'
  | 'refused_redirect' | 'bad_answer' | 'encoding' | 'refused_format' | 'ambiguous' | 'bad_request'

const RETRYABLE = new Set<HubReason>(['rate_limited', 'unavailable', 'stalled', 'no_range'])

export class HubError extends SourceFault {
  override readonly reason: HubReason
  /** How long the hub asks to wait, milliseconds; null when it does not say. */
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
