import { isObject, type JsonSchema } from './schema.js'

/** Limits for schemas that declare none: characters in a string, items in a list, fields in an object. */
const BOUNDS = {
  string: ['maxLength', 4096], array: ['maxItems', 10_000], object: ['maxProperties', 10_000]
} as const

export const isOpenBound = (keyword: string, value: unknown): boolean =>
  Object.values(BOUNDS).some(([name, most]) => name === keyword && most === value)

/** Keywords that hold plain values instead of schemas, and keywords that map names to schemas. */
const VALUES = new Set(['const', 'enum', 'default', 'examples', 'required', 'x-refused'])
const NAMED = new Set(['properties', 'patternProperties', '$defs'])

const made = new WeakMap<object, JsonSchema>()

/**
 * Adds a limit to each string, list and object schema that has none, to bound the work on one value. A field
 * that needs more declares its own limit. Returns the same object for the same schema, so that it is compiled
 * once.
 */
export function bounded<S extends JsonSchema> (schema: S): S {
  let found = made.get(schema)
  if (found === undefined) made.set(schema, found = withBounds(schema) as JsonSchema)
  return found as S
}

function withBounds (schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withBounds)
  if (!isObject(schema)) return schema
  const inner = Object.entries(schema).map(([key, value]) => {
    if (VALUES.has(key)) return [key, value]
    return [key, NAMED.has(key) && isObject(value)
      ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withBounds(one)]))
      : withBounds(value)]
  })
  return { ...boundsOf(schema), ...Object.fromEntries(inner) as object }
}

function boundsOf (schema: JsonSchema): object {
  if ('enum' in schema || 'const' in schema) return {}
  const closed = schema['additionalProperties'] === false
  const types = [schema['type']].flat().filter((type) => !(type === 'object' && closed))
  return Object.fromEntries(types.flatMap((type) =>
    typeof type === 'string' && Object.hasOwn(BOUNDS, type) ? [BOUNDS[type as keyof typeof BOUNDS]] : []))
}
