import type { Clock, Logger, Lookup } from '../../../kernel/index.js'
import { SourceFault } from '../transfer/types.js'

/** A file of a model on the hub. One of the hashes is always there; both are lowercase hex. */
export interface HubFile {
  path: string
  size: number
  sha256: string | null
  /** The git blob id, for files the hub keeps in git itself. */
  gitSha1: string | null
  /** Whether the hub has it in Xet's storage, too. */
  xet?: boolean
}

/** Exactly what is to be fetched of a model: plain data that survives JSON. */
export interface HubSelection {
  modelId: string
  /** 40 hex digits. */
  commit: string
  /** What was asked for, e.g. `main`. */
  revision: string
  files: HubFile[]
  totalBytes: number
  /** The licence of the model's metadata, e.g. `mit`. */
  licence: string | null
  /** Language tags of the model's metadata. */
  languages: string[]
}

/** A commit of a model. */
export type Pinned = Pick<HubSelection, 'modelId' | 'commit'>

/** One of the weights that a model has: a precision, and what it takes. */
export interface Weights { name: string, bytes: number, engine: 'gguf' | 'onnx', paths: string[] }

export interface Found {
  modelId: string
  /** The format in which it runs here; null where the hub names none of those. */
  engine: Weights['engine'] | null
  /** What the hub says it is for, such as `text-generation`. */
  task: string | null
  downloads: number | null
  likes: number | null
  /** ISO-8601. */
  updatedAt: string | null
  /** Whether its terms must be accepted first. */
  gated: boolean
}

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

/** The public model hub, or one that speaks its API. All methods throw HubError. */
export interface HubClient {
  /** Base URL without a slash at the end. */
  readonly url: string
  /** The same, and which weights the model has to choose from. */
  look (modelId: string, options?: ResolveOptions): Promise<{ selection: HubSelection, weights: Weights[] }>
  /** Models whose names have these words: what runs here first, at most `limit` of each format. */
  search (query: string, options: { limit: number, signal?: AbortSignal }): Promise<Found[]>
  /** Looks a model up, pins its commit and chooses files. */
  resolve (modelId: string, options?: ResolveOptions): Promise<HubSelection>
  /** Opens a file at byte `start`: exactly its bytes from there on, or an error in between. */
  open (
    selection: Pinned, file: HubFile, options: { start: number, signal?: AbortSignal }
  ): Promise<AsyncIterable<Uint8Array>>
  close (): Promise<void>
}

/** Bounds of one client. Times in milliseconds. */
export interface HubLimits {
  connectMs: number
  /** From the request to the head of the answer. */
  headersMs: number
  /** Between two pieces of a body. */
  idleMs: number
  /** Redirects followed for one request. */
  redirects: number
  metadataBytes: number
  /** Further tries of `resolve` after a failure that may pass. */
  retries: number
}

export interface HubClientOptions {
  /** Base URL of the hub, e.g. `https://huggingface.co`. May be a host in the own network. */
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

export type HubReason =
  /** No such model, revision or file; or the hub does not say so to someone without a token. */
  | 'not_found'
  /** 401 or 403: the model's terms must be accepted, or a token is missing. */
  | 'gated'
  | 'rate_limited'
  /** 5xx, no connection, or a connection that ended in the middle. */
  | 'unavailable'
  /** No answer or no bytes in time. */
  | 'stalled'
  /** What the hub has is not what the selection says. */
  | 'changed'
  /** The server sends the whole file where a part was asked for; start over. */
  | 'no_range'
  | 'too_long'
  | 'refused_redirect'
  /** An answer that the hub's API never gives. */
  | 'bad_answer'
  /** A content encoding; bytes on disk must be the file's. */
  | 'encoding'
  /** Nothing but formats that run code when loaded, or that no engine here runs. */
  | 'refused_format'
  /** Several voices or models in one; `allow` must say which. */
  | 'ambiguous'
  /** What was asked is malformed: the model id, the revision or a pattern. */
  | 'bad_request'

const RETRYABLE = new Set<HubReason>(['rate_limited', 'unavailable', 'stalled', 'no_range'])

/** A failed use of the hub; the message says what failed and what to do next. */
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

  /** Whether the same request may well succeed later. */
  override get retryable (): boolean { return RETRYABLE.has(this.reason) }

  override get startOver (): boolean { return this.reason === 'no_range' }
}
