/** Errors of servers as svc's. */
import { EngineError, kernelError, SvcError } from '../../kernel/index.js'
import { fieldsOf, numberOf, textOf } from '../runners/language/json.js'
import { withoutPaths } from '../runners/openai/errors.js'

export const errors = {
  upstream_unavailable: {
    status: 503, retryable: true, retryAfterSeconds: 10,
    message: 'The server behind the model cannot be used.',
    remedy: '`svc why MODEL` says why; plugins.upstreams.servers in svc.yaml has the address and the key.'
  },
  upstream_loop: {
    status: 508, retryable: false, message: 'The request went in a circle, or through too many clusters.',
    remedy: 'Under plugins.upstreams.servers in svc.yaml, name a server that does not lead back here.'
  }
} as const

export const upstreamError = (reason: keyof typeof errors, message: string): SvcError =>
  new SvcError(reason, errors[reason], message)

export const REFUSED_KEY = 'refused its key'
const TOO_LONG = /context.{0,3}length|context window|maximum context|too many tokens|prompt is too long/i

/** Characters of a secret in a row that must not be in a text. */
const PART = 10

/**
 * Returns a function that empties a text with a part of a secret: as it is, in base64 at any offset, or in
 * hexadecimal. Case does not matter.
 */
export function withoutSecrets (secrets: readonly string[]): (text: string) => string {
  const parts = new Set(secrets.flatMap((secret) => [
    secret, Buffer.from(secret).toString('hex'),
    ...['', ' ', '  '].map((pad) => Buffer.from(pad + secret).toString('base64').slice(4, -4))
  ]).flatMap((form) => form.length < PART ? []
    : Array.from({ length: form.length - PART + 1 }, (_, i) => form.slice(i, i + PART).toLowerCase())))
  return (text) => {
    const low = text.toLowerCase()
    return [...parts].some((part) => low.includes(part)) ? '' : text
  }
}

/**
 * Converts an error of the server `name`; `status` is absent for an error in the middle of a stream. `hide`
 * empties a text with secrets.
 */
export function toUpstreamError (
  name: string, hide: (text: string) => string, body: unknown, status?: number, retryAfter?: string
): SvcError | EngineError {
  const fields = fieldsOf(body)
  const error = fieldsOf(fields['error'])
  // Anthropic's errors in streams have no code.
  const code = status ?? numberOf(error['code']) ?? (error['type'] === 'overloaded_error' ? 529 : 500)
  const text = hide(textOf(error['message']) || textOf(fields['error']) || textOf(fields['message']))
  const said = `${name} failed (${code})${text === '' ? '' : `: ${withoutPaths(text).slice(0, 300)}`}`
  // 403 also refuses single requests, such as those that a filter stops.
  if (code === 401) return kernelError('provider_error', `${name} ${REFUSED_KEY} (${code}).`)
  if (code === 429) {
    const seconds = Math.min(Math.max(Number(retryAfter) || 5, 1), 3600)
    return kernelError('overloaded', `${name} has too many requests.`, { retryAfterSeconds: seconds })
  }
  if (code === 508) return upstreamError('upstream_loop', said)
  const isTooLong = TOO_LONG.test(`${textOf(error['code'])} ${text}`)
  if (isTooLong) return new EngineError('context_length_exceeded', said)
  if ([400, 413, 422].includes(code)) return new EngineError('invalid_request', said)
  // 529 is Anthropic's code for overload.
  return [502, 503, 504, 529].includes(code) ? upstreamError('upstream_unavailable', said)
    : kernelError('provider_error', said)
}
