import { isObject } from '../../kernel/index.js'
import { SCHEMA_BYTES, SCHEMA_DEPTH } from './limits.js'

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

/** Problems in a schema that compiling it does not reveal. */
export function schemaProblems (schema: unknown): string[] {
  if (!isObject(schema)) return ['must be a JSON Schema object']
  let text: string
  try {
    text = JSON.stringify(schema)
  } catch {
    return ['must be plain JSON (it contains itself or a value that JSON cannot represent)']
  }
  const bytes = Buffer.byteLength(text)
  if (bytes > SCHEMA_BYTES) return [`is ${bytes} bytes long; at most ${SCHEMA_BYTES} are allowed`]
  const depth = depthOf(schema)
  if (depth > SCHEMA_DEPTH) return [`is nested ${depth} deep; at most ${SCHEMA_DEPTH} are allowed`]
  return keywordProblems(schema)
}

function depthOf (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

/** Finds keywords that refer outside the schema or change the result of a validation. */
function keywordProblems (node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([key, value]) => {
    if ((key === '$ref' || key === '$dynamicRef') && typeof value === 'string' && !value.startsWith('#')) {
      return [`${key} "${value}" points outside the schema; only "#…" is allowed`]
    }
    if (key === '$schema' && typeof value === 'string' && value.replace(/#$/, '') !== DIALECT) {
      return [`$schema "${value}" is not supported; use JSON Schema 2020-12`]
    }
    if (key === '$async' && typeof value === 'boolean') return ['$async is not allowed']
    return keywordProblems(value)
  })
}
