import { randomUUID } from 'node:crypto'
import { SvcError, TRACE_HEADER, withHeaders } from '../../kernel/index.js'
import type { Caller, RouteRequest } from '../../kernel/index.js'

/** `x-svc-retry: 1` requests one retry on another instance after a loss. */
export const RETRY_HEADER = 'x-svc-retry'
const COMMAND_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export interface CallOrigin {
  readonly caller: Caller
  readonly requestId: string
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
  /** Set by a transport that needs the id before the call exists. */
  readonly commandId?: string
  /** The client requested a retry after the loss of an instance. */
  readonly retry?: boolean
  /** Forwarded by another node, so it must be served here. */
  readonly viaMember?: boolean
  /** The caller chose this node: see `CapabilityCall`. */
  readonly pinned?: boolean
  readonly input?: AsyncIterable<unknown>
  /** For the trace: time of arrival, monotonic ms, and the W3C `traceparent` header. */
  readonly arrivedMs?: number | undefined
  readonly traceparent?: string | undefined
  /** The forwarding node traces the call and requests the trace of this node. */
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
    retry: wantsRetry(headers),
    traceparent: headers['traceparent'],
    recorded: viaMember && headers[TRACE_HEADER] === '1'
  }
}

export function wantsRetry (headers: Readonly<Record<string, string | undefined>>): boolean {
  return headers[RETRY_HEADER] === '1'
}

/** Adds the command id, which every response carries so that failures can be looked up. */
export function withCommandId (error: unknown, commandId: string): unknown {
  return error instanceof SvcError ? withHeaders(error, { 'x-svc-command-id': commandId }) : error
}

/** Adds the task id, for the trace of the command. */
export function withTaskId (error: unknown, taskId: string | undefined): unknown {
  return error instanceof SvcError && taskId !== undefined
    ? withHeaders(error, { 'x-svc-task-id': taskId })
    : error
}
