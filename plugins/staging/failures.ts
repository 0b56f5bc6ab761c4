/**
 * The one error body in the formats of public APIs, so that each official client raises its own error. Pure.
 */
import type { ErrorBody } from '../../kernel/index.js'

/** OpenAI's codes of refusals that have one; others keep their reason. */
const CODES: Readonly<Record<string, string>> = {
  no_instance: 'model_not_found', overloaded: 'rate_limit_exceeded', unauthenticated: 'invalid_api_key',
  missing_grant: 'insufficient_permissions', not_found: 'unknown_url', internal: 'server_error'
}

/** The code of a refused field, by what is said of it. */
function fieldCode ({ details }: ErrorBody['error']): string {
  const [issue] = (details['issues'] ?? []) as { message?: string }[]
  const message = issue?.message ?? ''
  if (message === 'is not a known field') return 'unknown_parameter'
  if (message === 'is required') return 'missing_required_parameter'
  return /^(is|are) not served/.test(message) ? 'unsupported_parameter' : 'invalid_value'
}

function openAiType (status: number): string {
  if (status === 429) return 'rate_limit_error'
  return status < 500 ? 'invalid_request_error' : 'server_error'
}

/** A model that is known, and serves in a moment. */
const isLoading = ({ reason, code, retryable }: ErrorBody['error']): boolean =>
  reason === 'no_instance' && code === 503 && retryable

/** In OpenAI's format: `type` and `code` are its words. */
export function openAiFailure ({ error, detail }: ErrorBody): object {
  const known = isLoading(error) ? 'model_loading' : CODES[error.reason] ?? error.reason
  const code = error.reason === 'invalid_request' ? fieldCode(error) : known
  return { error: { ...error, type: openAiType(error.code), code }, detail }
}

/** Anthropic's types of errors, by status. */
const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error', 403: 'permission_error', 404: 'not_found_error', 413: 'request_too_large',
  429: 'rate_limit_error', 503: 'overloaded_error', 504: 'timeout_error'
}

/** In Anthropic's format. */
export function anthropicFailure ({ error, detail }: ErrorBody): object {
  const type = ANTHROPIC_TYPES[error.code] ?? (error.code < 500 ? 'invalid_request_error' : 'api_error')
  const message = tooLong(error) ?? error.message
  return { type: 'error', error: { ...error, message, type }, request_id: error.requestId, detail }
}

/** Anthropic's words for a prompt that does not fit, by which coding programs shorten a conversation. */
function tooLong ({ reason, details }: ErrorBody['error']): string | undefined {
  const { prompt_tokens: has, context_length: most } = details
  return reason === 'context_length_exceeded' && has !== undefined && most !== undefined
    ? `prompt is too long: ${String(has)} tokens > ${String(most)} maximum`
    : undefined
}

/** In Ollama's format: `error` is a text, and the rest is beside it. */
export function ollamaFailure ({ error, detail }: ErrorBody): object {
  const { message, ...rest } = error
  return { error: message, ...rest, detail }
}

/** For what clients of OpenAI and of Anthropic ask for at the same address. */
export function eitherFailure (body: ErrorBody, headers: Readonly<Record<string, unknown>>): object {
  return isAnthropic(headers) ? anthropicFailure(body) : openAiFailure(body)
}

/** Whether a request comes from a client of Anthropic's API. */
export const isAnthropic = (headers: Readonly<Record<string, unknown>>): boolean =>
  headers['anthropic-version'] !== undefined
