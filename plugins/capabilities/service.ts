/** Services for other plugins: streams that count as capability calls, news of ended calls, cost approval. */
import { defineService } from '../../kernel/index.js'
import type { Caller, CapabilityCall, CapabilityChunk, RouteRequest } from '../../kernel/index.js'

export { Admission } from './admission.js'
export { BoundedSocket } from './bounded-socket.js'
export type { Release } from './admission.js'

export interface ServedFrame {
  kind: 'started' | 'chunk' | 'completed' | 'failed' | 'cancelled'
  payload: unknown
  media: Uint8Array | null
  /** The error body of a `failed` frame. */
  error: object | null
}

/** Options for a plugin's route that answers with a stream and counts as a capability call. */
export interface ServeOptions {
  /** The capability (id@version) whose slots the request uses. */
  as: string
  contentType: string
  /** The payload from which the cost of the capability is computed. */
  payload?: unknown
  /** Encodes a frame; null to skip it. Without this function, only media bytes are written. */
  frame?: (frame: ServedFrame) => string | Uint8Array | null
  handler: (call: CapabilityCall) => AsyncIterable<CapabilityChunk<unknown>>
}

/** Lets other plugins' routes answer as capability calls do. */
export interface Invocations {
  /**
   * Answers a request with a stream. Admission, buffering, slow readers, cancellation, session changes and
   * the terminal frame work as in a capability call. Raw media wait for the first bytes; frames wait at most
   * one second before `started` is sent. Earlier failures are thrown, later ones are sent as the last frame.
   */
  serve (request: RouteRequest, options: ServeOptions): Promise<void>
}
export const InvocationService = defineService<Invocations>('capabilities.invocations')

export interface CallOutcome {
  callId: string
  commandId: string
  requestId: string
  capability: string
  callerId: string
  kind: 'completed' | 'failed' | 'cancelled'
  reason: string | null
  seconds: number
  /** The task that the handler reported; null if there is none. */
  taskId: string | null
  /** Whether the call was forwarded to another node, which may have started it. */
  passedOn: boolean
  /** Seconds in the queue; null if the call got no slot. */
  queuedSeconds: number | null
}

export interface CallQueue { capability: string, running: number, waiting: number }

export interface Calls {
  /**
   * Calls `fn` synchronously after the end of each capability call, and of each stream that counts as one, so
   * it must be fast. Returns a function that unsubscribes.
   */
  onEnd (fn: (outcome: CallOutcome) => void): () => void
  /** Queues of the local capabilities that have been called. */
  queues (): CallQueue[]
}
export const CallsService = defineService<Calls>('capabilities.calls')

export interface Amount {
  /** Currency as the capability declares it, such as `EUR`. */
  readonly unit: string
  /** Integer number of billionths of the currency unit. */
  readonly nano: number
}

export interface Expense {
  readonly capability: string
  readonly commandId: string
  readonly caller: Caller
  readonly amount: Amount
  /** Aborted when the caller disconnects. */
  readonly signal: AbortSignal
}

export interface Spending {
  /**
   * Resolves when the call is allowed. Throws `approval_denied`, `approval_timeout`, `overloaded`,
   * `plugin_disabled`, and the signal's abort reason.
   */
  allow (expense: Expense): Promise<void>
}
export const SpendingService = defineService<Spending>('capabilities.spending')
/** Maximum time in seconds to wait for an approval. */
export const MAX_APPROVAL_SECONDS = 600
