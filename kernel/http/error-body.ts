import { STATUS_CODES } from 'node:http'
import { kernelError } from '../api/errors.js'
import type { SvcError } from '../api/errors.js'

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

/** Headers of an error: its own, and Retry-After on 429, 503 and for every error with a time. */
export function errorHeaders (error: SvcError): Record<string, string> {
  const seconds = error.retryAfterSeconds ?? (error.status === 429 || error.status === 503 ? 1 : undefined)
  const headers = encodedHeaders(error.headers)
  if (seconds === undefined) return headers
  return { ...headers, 'retry-after': String(Math.max(1, Math.ceil(seconds))) }
}

/**
 * Headers as sent: model names and the like may contain characters that a header cannot, see RFC 8187 3.2.
 */
export function encodedHeaders (headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) =>
    [name, /^[\t\x20-\x7e]*$/.test(value) ? value : `UTF-8''${percentEncoded(value)}`]))
}

const percentEncoded = (text: string): string => encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\ufffd'))
  .replace(/['()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)

/** A body or query that fails its schema, as `invalid_request`. */
export function invalid (issues: { path: string, message: string }[], part: string): SvcError {
  const [first] = issues
  const field = first?.path === '' || first === undefined ? part : first.path
  const message = `${field} ${first?.message ?? 'is not valid'}`
  return kernelError('invalid_request', message, { param: field, issues })
}

export function printable (text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 120)
}
