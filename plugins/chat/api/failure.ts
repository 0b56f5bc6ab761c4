/** The one error body in the words of APIs that have another. Pure. */
import type { ErrorBody } from '../../../kernel/index.js'

/** Anthropic's words for kinds of errors, by status. */
const ANTHROPIC: Readonly<Record<number, string>> = {
  400: 'invalid_request_error', 401: 'authentication_error', 403: 'permission_error', 404: 'not_found_error',
  413: 'request_too_large', 429: 'rate_limit_error', 503: 'overloaded_error', 504: 'timeout_error'
}

const kindOf = (status: number): string =>
  ANTHROPIC[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')

/** An object with a type, whose error has one of Anthropic's types. */
export const anthropicFailure = ({ error, detail }: ErrorBody): object =>
  ({ type: 'error', error: { ...error, type: kindOf(error.code) }, request_id: error.requestId, detail })

/** `error` is a text for Ollama's clients; the rest is beside it. */
export function ollamaFailure ({ error, detail }: ErrorBody): object {
  const { message, ...rest } = error
  return { error: message, ...rest, detail }
}
