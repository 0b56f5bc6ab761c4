import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { kernelError, type KernelReason, type SvcError } from '../api/errors.js'
import { errorBody, errorHeaders } from './error-body.js'

const BROKEN: Readonly<Record<string, KernelReason>> = {
  HPE_HEADER_OVERFLOW: 'header_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout'
}

/** Answers a request that cannot be routed. */
export function refuse (response: ServerResponse, error: SvcError, status = error.status): void {
  const body = JSON.stringify(errorBody(error, randomUUID()))
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body),
    ...errorHeaders(error)
  })
  response.end(body)
}

/** Answers bytes that Node could not parse as a request: bad syntax, too many headers, or a timeout. */
export function answerBrokenRequest (error: Error & { code?: string }, socket: Duplex): void {
  const unread = socket.writableLength > 0
  if (!socket.writable || unread || error.code === 'ECONNRESET') { socket.destroy(); return }
  const reason = BROKEN[error.code ?? '']
  const known = reason === undefined
    ? kernelError('invalid_request', 'The request is not valid HTTP.')
    : kernelError(reason)
  const body = JSON.stringify(errorBody(known, randomUUID()))
  socket.end(`HTTP/1.1 ${known.status} ${known.status === 408 ? 'Request Timeout' : 'Error'}\r\n` +
    'content-type: application/json; charset=utf-8\r\nconnection: close\r\n' +
    `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  () => { socket.destroy() })
}
