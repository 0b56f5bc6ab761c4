import { randomUUID } from 'node:crypto'
import { SvcError, withHeaders } from '../api/errors.js'
import type { RouteRequest } from '../api/plugin.js'

const COMMAND_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

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

/** A new command id, or the one the command has at the node that passed the request on. */
export function commandIdOf ({ member, headers }: Pick<RouteRequest, 'member' | 'headers'>): string {
  const given = member === null ? undefined : headers['x-svc-command-id']
  return given !== undefined && COMMAND_ID.test(given) ? given : randomUUID()
}
