import { randomUUID } from 'node:crypto'
import { SvcError, TRACE_HEADER, withHeaders } from '../../kernel/index.js'
import type { Caller, ClientChunk, RouteRequest } from '../../kernel/index.js'

/** `x-svc-retry: 1` requests one retry on another instance after a loss. */
export const RETRY_HEADER = 'x-svc-retry'
const COMMAND_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export interface CallOrigin {
  readonly caller: Caller
  readonly requestId: string
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
  /** Set by transports that need the command id before the call exists. */
  readonly commandId?: string
  /** Whether the client requested a retry after the loss of an instance. */
  readonly retry?: boolean
  /** Whether another node forwarded the call, which must then be served here. */
  readonly viaMember?: boolean
  /** Whether the caller chose this node; see `CapabilityCall`. */
  readonly pinned?: boolean
  readonly input?: AsyncIterable<ClientChunk>
  /** The header `x-svc-hops`; see `CapabilityCall`. */
  readonly hops?: string | undefined
  /** For the trace: arrival time in monotonic ms, and the W3C `traceparent` header. */
  readonly arrivedMs?: number | undefined
  readonly traceparent?: string | undefined
  /** Whether the forwarding node requests this node's trace of the call. */
  readonly recorded?: boolean
}

/**
 * The origin of a call over HTTP. The command id is created here or taken from the forwarding node, so that
 * every response has one.
 */
export function originOf (
  { caller, requestId, signal, member, headers, arrivedMs }: RouteRequest
): CallOrigin & { commandId: string } {
  const viaMember = member !== null
  const given = viaMember ? headers['x-svc-command-id'] : undefined
  return {
    caller, requestId, signal, viaMember, arrivedMs,
    commandId: given !== undefined && COMMAND_ID.test(given) ? given : randomUUID(),
    retry: wantsRetry(headers), hops: headers['x-svc-hops'], traceparent: headers['traceparent'],
    recorded: viaMember && headers[TRACE_HEADER] === '1'
  }
}

export function wantsRetry (headers: Readonly<Record<string, string | undefined>>): boolean {
  return headers[RETRY_HEADER] === '1'
}

/** Adds the id of the command or task to an error, by which the failure and its trace can be looked up. */
export function withId (error: unknown, kind: 'command' | 'task', id: string | undefined): unknown {
  return error instanceof SvcError && id !== undefined
    ? withHeaders(error, { [`x-svc-${kind}-id`]: id })
    : error
}
