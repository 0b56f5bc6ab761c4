/** Formats the error body for public APIs, so that each official client raises its own error type. Pure. */
import type { ErrorBody } from '../../kernel/index.js'

const CODES: Readonly<Record<string, string>> = {
  no_instance: 'model_not_found', overloaded: 'rate_limit_exceeded', unauthenticated: 'invalid_api_key',
  missing_grant: 'insufficient_permissions', not_found: 'unknown_url', internal: 'server_error'
}

function fieldCode ({ details }: ErrorBody['error']): string {
  const [issue] = (details['issues'] ?? []) as { message?: string }[]
  const message = issue?.message ?? ''
  if (message === 'is not a known field') return 'unknown_parameter'
  if (message === 'is required') return 'missing_required_parameter'
  return /^(is|are) not served/.test(message) ? 'unsupported_parameter' : 'invalid_value'
}

export function openAiFailure ({ error, detail }: ErrorBody): object {
  const { reason, retryable } = error
  const known = reason === 'no_instance' && error.code === 503
    ? retryable ? 'model_loading' : 'server_error'
    : CODES[reason] ?? reason
  const code = reason === 'invalid_request' ? fieldCode(error) : known
  const fault = error.code < 500 ? 'invalid_request_error' : 'server_error'
  return { error: { ...error, type: error.code === 429 ? 'rate_limit_error' : fault, code }, detail }
}

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error', 403: 'permission_error', 404: 'not_found_error', 413: 'request_too_large',
  429: 'rate_limit_error', 503: 'overloaded_error', 504: 'timeout_error'
}

export function anthropicFailure ({ error, detail }: ErrorBody): object {
  const type = ANTHROPIC_TYPES[error.code] ?? (error.code < 500 ? 'invalid_request_error' : 'api_error')
  const message = tooLong(error) ?? error.message
  const code = clientCode(error)
  return { type: 'error', error: { ...error, message, type, code }, request_id: error.requestId, detail }
}

/** The code of a prompt that is too long, which LiteLLM and LangChain search for in errors of every API. */
const clientCode = ({ reason, code }: ErrorBody['error']): string | number =>
  reason === 'context_length_exceeded' ? reason : code

/** The texts that Anthropic's and OpenAI's clients match to know that they must shorten the conversation. */
function tooLong ({ reason, details }: ErrorBody['error']): string | undefined {
  const { prompt_tokens: has, context_length: most } = details
  return reason === 'context_length_exceeded' && has !== undefined && most !== undefined
    ? `prompt is too long: ${String(has)} tokens > ${String(most)} maximum (the maximum context length)`
    : undefined
}

/** Ollama's format: `error` is a string, with the other fields beside it. */
export function ollamaFailure ({ error, detail }: ErrorBody): object {
  const { message, ...rest } = error
  return { error: message, ...rest, code: clientCode(error), detail }
}

/** Formats errors on routes that OpenAI and Anthropic clients share; the kind of client is in `headers`. */
export function eitherFailure (body: ErrorBody, headers: Readonly<Record<string, unknown>>): object {
  return isAnthropic(headers) ? anthropicFailure(body) : openAiFailure(body)
}

export const isAnthropic = (headers: Readonly<Record<string, unknown>>): boolean =>
  headers['anthropic-version'] !== undefined
