import { STATUS_CODES } from 'node:http'
import { kernelError } from '../api/errors.js'
import type { SvcError } from '../api/errors.js'

/** The one error body of every route, stream and frame. */
export interface ErrorBody {
  error: {
    message: string
    type: string
    param: string | null
    code: number
    reason: string
    retryable: boolean
    requestId: string
    details: Record<string, unknown>
  }
  detail: string
}

/** Builds the body; never carries a stack or a path. */
export function errorBody (error: SvcError, requestId: string): ErrorBody {
  return {
    error: {
      message: error.message,
      type: STATUS_CODES[error.status] ?? 'Error',
      param: error.param,
      code: error.status,
      reason: error.reason,
      retryable: error.retryable,
      requestId,
      details: error.details
    },
    detail: error.message
  }
}

/** Headers that go with an error: its own, and Retry-After on 429, 503 and wherever it names a time. */
export function errorHeaders (error: SvcError): Record<string, string> {
  const seconds = error.retryAfterSeconds ?? (error.status === 429 || error.status === 503 ? 1 : undefined)
  if (seconds === undefined) return error.headers
  return { ...error.headers, 'retry-after': String(Math.max(1, Math.ceil(seconds))) }
}

/** A body or query that does not match, as the one validation error. */
export function invalid (issues: { path: string, message: string }[], part: string): SvcError {
  const [first] = issues
  const field = first?.path === '' || first === undefined ? part : first.path
  const message = `${field} ${first?.message ?? 'is not valid'}`
  return kernelError('invalid_request', message, { param: field, issues })
}

/** Text from outside, safe and short enough for a message. */
export function printable (text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 120)
}
