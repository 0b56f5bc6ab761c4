import { SourceFault } from '../transfer/error.js'

/** Why the hub could not be used. */
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
