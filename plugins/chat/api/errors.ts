/** Refusals of requests before any work, and the bounds that requests are checked against. Pure. */
import { EngineError, kernelError, SvcError } from '../../../kernel/index.js'
import { present } from '../../runners/language/json.js'
import type { ChatConfig } from '../config.js'
import type { Fields } from '../../runners/language/json.js'
import type { DerivedModel } from './derived-models.js'

/** Where a client goes on from what is not kept, or not any more. */
export const notKeptDecl = {
  status: 404,
  retryable: false,
  message: 'Nothing is kept here under that id.',
  remedy: 'Send the whole conversation, to any node. Answers are kept in the memory of the node that gave ' +
    'them, the oldest go first (plugins.chat.kept_mib).'
} as const

/** Bounds of a request; sizes in KiB. */
export type Limits = Omit<ChatConfig, 'model_aliases' | 'kept_mib' | 'ollama_port'>

/** What a request is read by. */
export interface Rules {
  limits: Limits
  /** Names that clients may use, and the models they stand for. */
  aliases: Readonly<Record<string, string>>
  /** A model that was made of another one, by its name. */
  made?: (name: string) => DerivedModel | undefined
  /** Whether a model reads images; true where nothing tells. */
  sees: (modelId: string) => boolean
}

/** The refusal of a field; the message is the path followed by `message`. */
export function invalidField (path: string, message: string): SvcError {
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}

/** The refusal of an id under which nothing is kept here; `more` are details. */
export function notStored (path: string, id: string, more: object = {}): SvcError {
  const message = `${path} ${id.slice(0, 128)} is not kept on this node: it was never kept, belongs to ` +
    'another caller, or was let go to make room.'
  return new SvcError('not_kept', notKeptDecl, message, { param: path, ...more })
}

/** What `make` gives. A refusal of a field is told under the name that an API has for it. */
export function withApiFieldNames<T> (names: Readonly<Record<string, string>>, make: () => T): T {
  try {
    return make()
  } catch (error) {
    if (!(error instanceof SvcError) || error.reason !== 'invalid_request') throw error
    const { issues } = error.details as { issues?: { path: string, message: string }[] }
    const [issue] = issues ?? []
    const known = Object.keys(names).find((name) => `${issue?.path}.`.startsWith(`${name}.`))
    if (issue === undefined || known === undefined) throw error
    throw invalidField(names[known]! + issue.path.slice(known.length), issue.message)
  }
}

/** An engine's refusal as one of the request, naming the field; any other error as it is. */
export function asRequestError (error: unknown): unknown {
  if (!(error instanceof EngineError) || error.reason !== 'invalid_request') return error
  const { issues = [] } = error.details as { issues?: { path: string, message: string }[] }
  return kernelError('invalid_request', error.message, {
    ...error.details, ...present({ param: issues[0]?.path }), issues
  })
}

/** The text of a field that a schema does not check. Throws `invalid_request`. */
export function stringAt (fields: Fields, key: string, path: string): string {
  const value = fields[key]
  if (typeof value !== 'string') throw invalidField(`${path}.${key}`, 'must be a string')
  return value
}

/** Throws `invalid_request` when a list has too many entries; `what` names them. */
export function atMost (path: string, count: number, most: number, what: string): void {
  if (count > most) throw invalidField(path, `has ${count} ${what}; at most ${most} are taken`)
}

/** Throws `invalid_request` when a schema is larger or nested deeper than the limits. */
export function checkSchema (path: string, schema: unknown, limits: Limits): void {
  const { schema_depth: levels, schema_kib: kib } = limits
  if (deeperThan(schema, levels)) throw invalidField(path, `is nested deeper than ${levels} levels`)
  const bytes = Buffer.byteLength(JSON.stringify(schema ?? null))
  if (bytes > kib * 1024) throw invalidField(path, `has ${bytes} bytes; at most ${kib * 1024} are taken`)
}

/** Whether objects and lists are nested in more than `levels` levels. Looks no deeper than that. */
export function deeperThan (value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  return Object.values(value).some((inner) => deeperThan(inner, levels - 1))
}
