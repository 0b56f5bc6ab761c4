import { SvcError, withHeaders } from '../errors.js'

/** The error with the id of its command, which goes with every answer so that a failure can be looked up. */
export function withCommandId (error: unknown, commandId: string): unknown {
  return error instanceof SvcError ? withHeaders(error, { 'x-svc-command-id': commandId }) : error
}
