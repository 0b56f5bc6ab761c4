import { HIDDEN, isObject, withoutUrlSecrets, type Change, type JsonSchema } from '../../kernel/index.js'

const TEXT_MOST = 256
const ITEMS_MOST = 16
/** Maximum bytes of JSON for a request and for handler details, since a record must fit into an event. */
const REQUEST_MOST = 3000
const NOTE_MOST = 1500

/**
 * Prepares a value for the audit. Hides `writeOnly` and secret fields, values whose type the schema does not
 * define, and secrets in URLs; shortens long strings and lists. Without a schema, hides no field.
 */
export function redacted (schema: JsonSchema | null, value: unknown): unknown {
  if (schema !== null && (schema['writeOnly'] === true || schema['x-secret'] === true)) return HIDDEN
  if (Array.isArray(value)) return redactedItems(schema, value)
  if (isObject(value)) return redactedFields(schema, value)
  if (schema !== null && isOpen(schema)) return HIDDEN
  return typeof value === 'string' ? shortened(value) : value
}

function redactedItems (schema: JsonSchema | null, values: readonly unknown[]): unknown[] {
  const kept = values.slice(0, ITEMS_MOST).map((one) => redacted(inside(schema, 'items'), one))
  return values.length > ITEMS_MOST ? [...kept, `and ${values.length - ITEMS_MOST} more`] : kept
}

function redactedFields (schema: JsonSchema | null, value: Record<string, unknown>): Record<string, unknown> {
  const named = schema?.['properties']
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => {
    const own = isObject(named) && Object.hasOwn(named, key) ? named[key] as JsonSchema : null
    return [shortened(key), redacted(own ?? inside(schema, 'additionalProperties'), inner)]
  }))
}

/** The schema under a keyword, or an empty one. */
function inside (schema: JsonSchema | null, keyword: string): JsonSchema | null {
  if (schema === null) return null
  return isObject(schema[keyword]) ? schema[keyword] as JsonSchema : {}
}

/** True if the schema does not define the value; an alternative (`anyOf`) may then mark it as secret. */
function isOpen (schema: JsonSchema): boolean {
  return !['type', 'enum', 'const'].some((word) => word in schema)
}

/** At most 256 characters, without lone surrogates, which RFC 8785 does not allow. */
function shortened (text: string): string {
  const plain = withoutUrlSecrets(text).replace(/\p{Surrogate}/gu, '\ufffd')
  if (plain.length <= TEXT_MOST) return plain
  return `${plain.slice(0, TEXT_MOST - 1).replace(/\p{Surrogate}$/u, '')}…`
}

/** The parts of a request by name, each redacted by its schema, up to REQUEST_MOST in total. */
export function redactedParts (parts: Change['parts'] = []): Record<string, unknown> {
  const kept: Record<string, unknown> = {}
  let left = REQUEST_MOST
  for (const [name, schema, value] of parts) {
    if (schema === undefined || value === undefined || value === null) continue
    if (isObject(value) && Object.keys(value).length === 0) continue
    const part = redacted(schema, value)
    const size = jsonBytes(part)
    kept[name] = size <= left ? part : `${size} bytes, not kept`
    left -= Math.min(size, left)
  }
  return kept
}

/** Prepares details that have no schema, such as those a handler adds. */
export function redactedDetails (note: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept = redacted(null, note) as Record<string, unknown>
  const size = jsonBytes(kept)
  return size <= NOTE_MOST ? kept : { note: `${size} bytes, not kept` }
}

const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))
