import { isObject } from './json.js'

/** Nesting depth down to which schemas are rewritten; deeper ones are refused. */
const MAX_DEPTH = 500
/** Keywords whose values are not schemas. */
const VALUES = new Set(['enum', 'const', 'default', 'examples'])

/** Rewrites tuples of draft 7 (`items` as a list), which zod and pydantic 1 write, as those of 2020-12. */
export function fromDraft7 (schema: unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) return schema
  const inner = (each: unknown): unknown => fromDraft7(each, depth + 1)
  if (Array.isArray(schema)) return schema.map(inner)
  if (!isObject(schema)) return schema
  const isTuple = Array.isArray(schema['items'])
  return Object.fromEntries(Object.entries(schema).flatMap(([word, value]) => {
    if (VALUES.has(word)) return [[word, value]]
    if (isTuple && word === 'items') return (value as []).length === 0 ? [] : [['prefixItems', inner(value)]]
    return [[isTuple && word === 'additionalItems' ? 'items' : word, inner(value)]]
  }))
}
