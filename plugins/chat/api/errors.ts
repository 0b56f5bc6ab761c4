/** Refusals of requests, and the one error body in the formats of APIs that have another. Pure. */
import { EngineError, kernelError } from '../../../kernel/index.js'
import type { SvcError } from '../../../kernel/index.js'
import type { ErrorBody } from '../../../kernel/index.js'

/** Anthropic's types of errors, by status. */
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

/** The refusal of a field; `message` goes on from its path. */
export function refused (path: string, message: string): SvcError {
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}

/** Where a parameter stands in the task, but not in the request. */
const INNER = /(^|[\s;])params\./g

/** An engine's refusal under the names of the request's fields, which have no `params.` before them. */
export function asRequestError (error: unknown): unknown {
  if (!(error instanceof EngineError) || error.reason !== 'invalid_request') return error
  const { issues } = error.details as { issues?: { path: string, message: string }[] }
  const plain = (text: string): string => text.replace(INNER, '$1')
  const named = (issues ?? []).map(({ path, message }) => ({ path: plain(path), message: plain(message) }))
  const param = named[0] === undefined ? {} : { param: named[0].path }
  return kernelError('invalid_request', plain(error.message), { ...error.details, ...param, issues: named })
}
