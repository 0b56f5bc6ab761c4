import { STATUS_CODES } from 'node:http'
import { kernelError, type SvcError } from '../api/errors.js'

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

/** Builds the API's error body, which never contains a stack trace or a path. */
export function errorBody (error: SvcError, requestId: string): ErrorBody {
  return {
    error: {
      message: error.message, type: STATUS_CODES[error.status] ?? 'Error', param: error.param,
      code: error.status, reason: error.reason, retryable: error.retryable, requestId, details: error.details
    },
    detail: error.message
  }
}

/** Headers of an error response: the error's own; Retry-After for 429, 503 and errors with a retry time. */
export function errorHeaders (error: SvcError): Record<string, string> {
  const seconds = error.retryAfterSeconds ?? (error.status === 429 || error.status === 503 ? 1 : undefined)
  const headers = encodedHeaders(error.headers)
  if (seconds === undefined) return headers
  return { ...headers, 'retry-after': String(Math.max(1, Math.ceil(seconds))) }
}

/** Encodes header values as in RFC 8187 3.2, since model names may contain characters not allowed there. */
export function encodedHeaders (headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) =>
    [name, /^[\t\x20-\x7e]*$/.test(value) ? value : `UTF-8''${percentEncoded(value)}`]))
}

const percentEncoded = (text: string): string => encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\ufffd'))
  .replace(/['()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)

/** Converts schema violations in a body or query to an `invalid_request` error. */
export function invalid (issues: { path: string, message: string }[], part: string): SvcError {
  const [first] = issues
  const field = first?.path === '' || first === undefined ? part : first.path
  const message = `${field} ${first?.message ?? 'is not valid'}`
  return kernelError('invalid_request', message, { param: field, issues })
}

export function printable (text: string): string { return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 120) }
