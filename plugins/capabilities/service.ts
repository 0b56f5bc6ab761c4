/** For other plugins: streams in the place of a capability, calls that end, spending. */
import { defineService } from '../../kernel/index.js'
import type { Caller, CapabilityCall, CapabilityChunk, RouteRequest } from '../../kernel/index.js'

export { Admission } from './admission.js'
export type { Release } from './admission.js'

/** A frame of a served stream as a plugin's own route may write it. */
export interface ServedFrame {
  kind: 'started' | 'chunk' | 'completed' | 'failed' | 'cancelled'
  payload: unknown
  /** Raw bytes of a chunk. */
  media: Uint8Array | null
  /** The one error body, for `failed`. */
  error: object | null
}

/** A stream of a plugin's route that runs as a capability call. */
export interface ServeOptions {
  /** The capability (id@version) whose limit of calls at once this request counts against. */
  as: string
  contentType: string
  /** Payload for the capability; its cost is computed from it. */
  payload?: unknown
  /** Writes a frame; null for nothing. Without it only media bytes are written. */
  frame?: (frame: ServedFrame) => string | Uint8Array | null
  handler: (call: CapabilityCall) => AsyncIterable<CapabilityChunk<unknown>>
}

/** Capability calls for plugins that serve them under another route too. */
export interface Invocations {
  /**
   * Answers a request with a stream: admission, buffering, slow readers, cancel, session change and the one
   * terminal as in a capability call. Raw media wait for their first bytes, frames for a second at most (then
   * `started` is sent); failures before that are thrown, those after it are the last frame.
   */
  serve (request: RouteRequest, options: ServeOptions): Promise<void>
}
export const InvocationService = defineService<Invocations>('capabilities.invocations')

/** The end of a call, for logs, events and traces. */
export interface CallOutcome {
  callId: string
  commandId: string
  requestId: string
  capability: string
  callerId: string
  kind: 'completed' | 'failed' | 'cancelled'
  reason: string | null
  seconds: number
  /** The task that its handler named; null when it named none. */
  taskId: string | null
  /** Another node was to serve it, and may have begun. */
  passedOn: boolean
  /** Its wait for a place; null when it got none. */
  queuedSeconds: number | null
}

export interface CallQueue { capability: string, running: number, waiting: number }

export interface Calls {
  /**
   * Calls `fn` after each capability call, and each request served in the place of one, has ended:
   * synchronously, so it must be quick. Returns what stops it.
   */
  onEnd (fn: (outcome: CallOutcome) => void): () => void
  /** The queues of this node's capabilities that were called so far. */
  queues (): CallQueue[]
}
export const CallsService = defineService<Calls>('capabilities.calls')

export interface Amount {
  /** As declared: `EUR`. */
  readonly unit: string
  /** Billionths of the unit, a whole number. */
  readonly nano: number
}

export interface Expense {
  readonly capability: string
  readonly commandId: string
  readonly caller: Caller
  readonly amount: Amount
  /** Aborts when the caller has gone. */
  readonly signal: AbortSignal
}

/** Approves expenses, if a plugin provides it. */
export interface Spending {
  /**
   * Resolves when the call may be made. Throws `approval_denied`, `approval_timeout`, `overloaded`,
   * `plugin_disabled`, and the reason of the signal.
   */
  allow (expense: Expense): Promise<void>
}
export const SpendingService = defineService<Spending>('capabilities.spending')
/** Longest time a call may wait for somebody to approve what it costs. */
export const MAX_APPROVAL_SECONDS = 600
