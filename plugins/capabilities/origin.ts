import { randomUUID } from 'node:crypto'
import { SvcError, TRACE_HEADER, withHeaders } from '../../kernel/index.js'
import type { Caller, RouteRequest } from '../../kernel/index.js'

/** Asks that a request whose instance was lost is tried once more elsewhere: `x-svc-retry: 1`. */
export const RETRY_HEADER = 'x-svc-retry'
const COMMAND_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export interface CallOrigin {
  readonly caller: Caller
  readonly requestId: string
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal
  /** Made by the transport when it needs the id before the call exists. */
  readonly commandId?: string
  /** The client asked for a second try where an instance is lost. */
  readonly retry?: boolean
  /** Another node passed the call on: it is served here or nowhere. */
  readonly viaMember?: boolean
  /** The caller named this node: see `CapabilityCall`. */
  readonly pinned?: boolean
  readonly input?: AsyncIterable<unknown>
  /** Monotonic milliseconds of its arrival, and the W3C header it came with: for its trace. */
  readonly arrivedMs?: number | undefined
  readonly traceparent?: string | undefined
  /** The node that passed it on records it and wants this node's part. */
  readonly recorded?: boolean
}

/**
 * The origin of a call that came as an HTTP request. Its command id is made here, or taken from the node that
 * passed the request on, so that every answer carries one, whatever happens.
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

/** Whether the client, or the node it asked, wants a lost request to be tried again. */
export function wantsRetry (headers: Readonly<Record<string, string | undefined>>): boolean {
  return headers[RETRY_HEADER] === '1'
}

/** The error with the id of its command, which goes with every answer so that a failure can be looked up. */
export function withCommandId (error: unknown, commandId: string): unknown {
  return error instanceof SvcError ? withHeaders(error, { 'x-svc-command-id': commandId }) : error
}

/** The error with the id of the task that the command had become, so that its trace can be found. */
export function withTaskId (error: unknown, taskId: string | undefined): unknown {
  return error instanceof SvcError && taskId !== undefined
    ? withHeaders(error, { 'x-svc-task-id': taskId })
    : error
}
