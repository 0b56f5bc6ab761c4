import { Ajv2020 } from 'ajv/dist/2020.js'
import type { ErrorObject, ValidateFunction } from 'ajv'
import type { JsonSchema } from './schema.js'

/** A problem with a value: JSON pointer and a sentence. */
export interface Issue { path: string, message: string }

const base = {
  removeAdditional: false, useDefaults: false, strict: true, strictTypes: false, strictRequired: false,
  // Compiling the meta-schema takes longer than compiling all other schemas at boot, and strict mode finds
  // the same faults.
  meta: false, validateSchema: false, code: { optimize: false }
} as const

/** Validates bodies, payloads and events; never converts, removes or fills in a value. */
const strictAjv = withFormats(new Ajv2020({ ...base, coerceTypes: false, allErrors: false }))
/**
 * Query strings and path parameters arrive as text: numbers, booleans and one-element lists are converted.
 */
const textAjv = withFormats(new Ajv2020({
  ...base, coerceTypes: 'array', useDefaults: true, allErrors: false
}))

/** RFC 3339 5.6. */
const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i

function withFormats (ajv: Ajv2020): Ajv2020 {
  ajv.addFormat('uri', (s: string) => URL.canParse(s))
  ajv.addFormat('uuid', /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i)
  // Date.parse alone accepts much more, such as "7".
  ajv.addFormat('date-time', (s: string) => DATE_TIME.test(s) && !Number.isNaN(Date.parse(s)))
  ajv.addKeyword('x-local').addKeyword('x-remote')
  ajv.addKeyword('x-secret').addKeyword('x-unit').addKeyword('x-ignored')
  ajv.addKeyword({ keyword: 'x-refused', schemaType: 'object', errors: true, validate: refuse })
  return ajv
}

/** Why a field is refused, and the values that are allowed in addition to null. */
export interface RefusedField { why: string, unless?: readonly unknown[] }

function refuse ({ why, unless = [] }: RefusedField, value: unknown): boolean {
  const text = JSON.stringify(value)
  if (value === null || unless.some((harmless) => JSON.stringify(harmless) === text)) return true
  // Ajv reads the errors from this property.
  refuse.errors = [{ keyword: 'x-refused', message: why, params: {} }]
  return false
}
refuse.errors = [] as Partial<ErrorObject>[]

/** Compiles once per schema object, since Ajv caches the result. Throws when the schema itself is wrong. */
export const compileStrict = (schema: JsonSchema): ValidateFunction => strictAjv.compile(schema)

/** Like compileStrict, for values that arrive as text. */
export const compileText = (schema: JsonSchema): ValidateFunction => textAjv.compile(schema)

/** A check that compiles its schema on first use: compiling for every route would slow the boot. */
export function compileLater (compile: (schema: JsonSchema) => ValidateFunction, schema: JsonSchema):
((value: unknown) => boolean) & { errors: ErrorObject[] | null } {
  const check = (value: unknown): boolean => {
    const validate = compile(schema)
    const fits = validate(value)
    check.errors = validate.errors ?? null
    return fits
  }
  check.errors = null as ErrorObject[] | null
  return check
}

/** Null for a valid value, else a sentence that names the field. */
export function schemaChecker (schema: JsonSchema): (value: unknown) => string | null {
  return (value) => {
    const validate = compileStrict(schema)
    if (validate(value)) return null
    const [issue] = issuesOf(validate.errors)
    return issue === undefined ? 'is not valid' : `${issue.path || 'value'} ${issue.message}`
  }
}

/** Null for a valid value. */
export type Check = (value: unknown) => Issue[] | null

const checks = new WeakMap<JsonSchema, Check>()

/** Compiles a capability's schema, once per object. Throws if the schema itself is invalid. */
export function checkOf (schema: JsonSchema): Check {
  const known = checks.get(schema)
  if (known !== undefined) return known
  // Drops `$id`, so that two copies of a schema do not collide; `$ref` only points into the same schema.
  const { $id: _, ...anonymous } = structuredClone(schema) as Record<string, unknown>
  const validate = compileStrict(anonymous)
  const check: Check = (value) => validate(value) ? null : issuesOf(validate.errors)
  checks.set(schema, check)
  return check
}

export function issuesOf (errors: readonly ErrorObject[] | null | undefined): Issue[] {
  return (errors ?? []).map((e) => ({ path: pathOf(e), message: sentence(e) }))
}

function pathOf (e: ErrorObject): string {
  const at = e.instancePath.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~')
  const params = e.params as Record<string, unknown>
  const extra = e.keyword === 'required' ? params['missingProperty']
    : e.keyword === 'additionalProperties' ? params['additionalProperty']
      : e.keyword === 'unevaluatedProperties' ? params['unevaluatedProperty'] : undefined
  return extra === undefined ? at : at === '' ? String(extra) : `${at}.${String(extra)}`
}

const list = (values: readonly unknown[]): string => values.map((v) => JSON.stringify(v)).join(', ')

function sentence (e: ErrorObject): string {
  const p = e.params as Record<string, unknown>
  switch (e.keyword) {
    case 'required': return 'is required'
    case 'additionalProperties':
    case 'unevaluatedProperties': return 'is not a known field'
    case 'const': return `must be ${JSON.stringify(p['allowedValue'])}`
    case 'enum': return `must be one of ${list(p['allowedValues'] as unknown[])}`
    case 'minLength':
      return p['limit'] === 1 ? 'must not be empty' : `must have at least ${String(p['limit'])} characters`
    case 'maxLength': return `must have at most ${String(p['limit'])} characters`
    case 'type': return `must be ${[p['type']].flat().join(' or ')}`
    default: return e.message ?? 'is not valid'
  }
}
