/** Refusals of requests before any work, and the one error body in the formats of other APIs. Pure. */
import { EngineError, kernelError } from '../../../kernel/index.js'
import type { SvcError } from '../../../kernel/index.js'
import type { ErrorBody } from '../../../kernel/index.js'
import type { ChatConfig } from '../config.js'

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

/** Largest body in bytes. */
export const BODY_BYTES = 4 * 1024 * 1024

/** Bounds of a request; sizes in KiB. */
export type Limits = Omit<ChatConfig, 'model_aliases'>

/** Throws `invalid_request` when a list has too many entries; `what` names them. */
export function atMost (path: string, count: number, most: number, what: string): void {
  if (count > most) throw refused(path, `has ${count} ${what}; at most ${most} are taken`)
}

/** Throws `invalid_request` when a schema is larger or nested deeper than the limits. */
export function checkSchema (path: string, schema: unknown, limits: Limits): void {
  const { schema_depth: levels, schema_kib: kib } = limits
  if (deeperThan(schema, levels)) throw refused(path, `is nested deeper than ${levels} levels`)
  const bytes = Buffer.byteLength(JSON.stringify(schema ?? null))
  if (bytes > kib * 1024) throw refused(path, `has ${bytes} bytes; at most ${kib * 1024} are taken`)
}

/** Whether objects and lists are nested in more than `levels` levels. Pure; looks no deeper than that. */
export function deeperThan (value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  return Object.values(value).some((inner) => deeperThan(inner, levels - 1))
}
