import { isObject } from '../api/schema.js'
import { compileStrict, issuesOf } from '../api/validate.js'
import { SCHEMA_BYTES, SCHEMA_DEPTH } from './limits.js'
import type { Issue } from '../api/validate.js'
import type { JsonSchema } from '../api/schema.js'

/** Null when the value fits, else what is wrong with it. */
export type Check = (value: unknown) => Issue[] | null

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

/** What is wrong with a declared schema, one sentence each; empty when it may be used. */
export function schemaProblems (schema: unknown, compiled: boolean): string[] {
  if (!isObject(schema)) return ['must be a JSON Schema object']
  let text: string
  try {
    text = JSON.stringify(schema)
  } catch {
    return ['must be plain JSON (it contains itself or a value that JSON cannot say)']
  }
  const bytes = Buffer.byteLength(text)
  if (bytes > SCHEMA_BYTES) return [`is ${bytes} bytes long; at most ${SCHEMA_BYTES} are allowed`]
  const depth = depthOf(schema)
  if (depth > SCHEMA_DEPTH) return [`is nested ${depth} deep; at most ${SCHEMA_DEPTH} are allowed`]
  const problems = keywordProblems(schema)
  return problems.length > 0 || !compiled ? problems : compileProblems(schema as JsonSchema)
}

function depthOf (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

/** Keywords that would reach outside the schema or change what validation returns. */
function keywordProblems (node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([key, value]) => {
    if ((key === '$ref' || key === '$dynamicRef') && typeof value === 'string' && !value.startsWith('#')) {
      return [`${key} "${value}" points outside the schema; only "#…" is allowed`]
    }
    if (key === '$schema' && typeof value === 'string' && value.replace(/#$/, '') !== DIALECT) {
      return [`$schema "${value}" is not served; write it in JSON Schema 2020-12`]
    }
    if (key === '$async' && typeof value === 'boolean') return ['$async is not allowed']
    return keywordProblems(value)
  })
}

function compileProblems (schema: JsonSchema): string[] {
  try {
    checkOf(schema)
    return []
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)]
  }
}

const checks = new WeakMap<JsonSchema, Check>()

/** Compiles a schema into a check, once per schema object. Throws when the schema does not compile. */
export function checkOf (schema: JsonSchema): Check {
  const known = checks.get(schema)
  if (known !== undefined) return known
  // References stay inside the schema, so its own name is not needed, and two copies of it cannot collide.
  const { $id: _, ...anonymous } = structuredClone(schema) as Record<string, unknown>
  const validate = compileStrict(anonymous)
  const check: Check = (value) => validate(value) ? null : issuesOf(validate.errors)
  checks.set(schema, check)
  return check
}
