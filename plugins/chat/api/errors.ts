/** Validation errors and request limits. Pure. */
import { badField, EngineError, kernelError, SvcError } from '../../../kernel/index.js'
import { present, type Fields } from '../../runners/language/json.js'
import type { ChatConfig } from '../config.js'

export const notKeptDecl = {
  status: 404,
  retryable: false,
  message: 'This node stores no conversation with that id.',
  remedy: 'Send the whole conversation, to any node. A node stores them in memory and drops the ' +
    'oldest first (plugins.chat.kept_mib).'
} as const

/** Limits on the parts of a request; sizes in KiB. */
export type Limits = Omit<ChatConfig, 'model_aliases' | 'kept_mib'>

/** Settings and models that requests are checked against. */
export interface Rules {
  limits: Limits
  /** Maps aliases to model ids. */
  aliases: Readonly<Record<string, string>>
  /** Whether a model reads images; true if unknown. */
  readsImages: (modelId: string) => boolean
}

/** A `not_kept` error for the id in field `path`; `more` adds details. */
export function notStored (path: string, id: string, more: object = {}): SvcError {
  const message = `${path} ${id.slice(0, 128)} is not stored on this node: it was never stored, belongs to ` +
    'another caller, or was dropped to free memory.'
  return new SvcError('not_kept', notKeptDecl, message, { param: path, ...more })
}

/** Runs `make`; renames the field in its `invalid_request` error to the API's name for it. */
export function withApiFieldNames<T> (names: Readonly<Record<string, string>>, make: () => T): T {
  try {
    return make()
  } catch (error) {
    if (!(error instanceof SvcError) || error.reason !== 'invalid_request') throw error
    const { issues } = error.details as { issues?: { path: string, message: string }[] }
    const [issue] = issues ?? []
    const known = Object.keys(names).find((name) => `${issue?.path}.`.startsWith(`${name}.`))
    if (issue === undefined || known === undefined) throw error
    throw badField(names[known]! + issue.path.slice(known.length), issue.message)
  }
}

/** Turns an engine's `invalid_request` into one that names the request field; other errors pass through. */
export function asRequestError (error: unknown): unknown {
  if (!(error instanceof EngineError) || error.reason !== 'invalid_request') return error
  const { issues = [] } = error.details as { issues?: { path: string, message: string }[] }
  return kernelError('invalid_request', error.message, {
    ...error.details, ...present({ param: issues[0]?.path }), issues
  })
}

/** A string field that no schema checks. Throws `invalid_request`. */
export function stringAt (fields: Fields, key: string, path: string): string {
  const value = fields[key]
  if (typeof value !== 'string') throw badField(`${path}.${key}`, 'must be a string')
  return value
}

/** Throws `invalid_request` if a list has too many entries; `what` names the entries in the message. */
export function atMost (path: string, count: number, most: number, what: string): void {
  if (count > most) throw badField(path, `has ${count} ${what}; at most ${most} are allowed`)
}

/** Throws `invalid_request` if a schema exceeds the limits of size or depth. */
export function checkSchema (path: string, schema: unknown, limits: Limits): void {
  const { schema_depth: levels, schema_kib: kib } = limits
  if (deeperThan(schema, levels)) throw badField(path, `is nested deeper than ${levels} levels`)
  const bytes = Buffer.byteLength(JSON.stringify(schema ?? null))
  if (bytes > kib * 1024) throw badField(path, `has ${bytes} bytes; at most ${kib * 1024} are allowed`)
}

/** Whether objects and lists nest deeper than `levels`; descends no further than that. */
export function deeperThan (value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  return Object.values(value).some((inner) => deeperThan(inner, levels - 1))
}
