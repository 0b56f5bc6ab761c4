import { Validator } from '@cfworker/json-schema'

export type Schema = Record<string, unknown>

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Most depth of a schema. */
const DEPTH = 12

export interface Row {
  path: string, type: string, required: boolean, constraint: string, description: string
}

/** Every field of a schema with what is asked of it. */
export function rowsOf (schema: unknown): Row[] {
  const rows: Row[] = []
  walk(schema, '', false, 0, rows)
  return rows
}

function walk (schema: unknown, path: string, required: boolean, depth: number, rows: Row[]): void {
  if (!isObject(schema) || depth > DEPTH) return
  if (path !== '') {
    const { description } = schema
    rows.push({
      path, required, type: typeOf(schema), constraint: constraintOf(schema),
      description: typeof description === 'string' ? description : ''
    })
  }
  const needed = Array.isArray(schema['required']) ? schema['required'] : []
  if (isObject(schema['properties'])) {
    for (const [name, one] of Object.entries(schema['properties'])) {
      walk(one, path === '' ? name : `${path}.${name}`, needed.includes(name), depth + 1, rows)
    }
  }
  if (isObject(schema['items'])) walk(schema['items'], `${path}[]`, false, depth + 1, rows)
}

function typeOf (schema: Schema): string {
  const { type } = schema
  if (Array.isArray(type)) return type.join(' or ')
  if (typeof type === 'string') return type
  if ('const' in schema) return 'constant'
  if (Array.isArray(schema['enum'])) return 'one of'
  const one = ['anyOf', 'oneOf', 'allOf', '$ref'].find((key) => key in schema)
  return one === '$ref' ? String(schema['$ref']) : one ?? 'anything'
}

const WORDS: Readonly<Record<string, string>> = {
  minimum: 'from', maximum: 'to', exclusiveMinimum: 'above', exclusiveMaximum: 'below',
  minLength: 'length from', maxLength: 'length to', minItems: 'items from', maxItems: 'items to',
  multipleOf: 'multiple of',
  pattern: 'pattern', format: 'format', const: 'only', default: 'default', contentMediaType: 'media type',
  contentEncoding: 'encoding', uniqueItems: 'unique'
}

function constraintOf (schema: Schema): string {
  const list = Array.isArray(schema['enum'])
    ? [schema['enum'].map((one) => JSON.stringify(one)).join(', ')]
    : []
  const others = Object.entries(WORDS).filter(([key]) => key in schema).map(([key, words]) => {
    const value = schema[key]
    return `${words} ${typeof value === 'string' ? value : JSON.stringify(value)}`
  })
  if (schema['additionalProperties'] === false) others.push('no other fields')
  return [...list, ...others].join('; ')
}

export interface FormPlan { schema: Schema, ui: Record<string, unknown> }

const AS_JSON = { 'ui:field': 'json' }
const TELLING = [
  'type', 'enum', 'const', 'anyOf', 'oneOf', 'allOf', '$ref', 'properties', 'items', 'prefixItems', 'if'
]

/**
 * Prepares a schema for the form: several types become a choice, `null` is dropped (empty fields are not
 * sent), tuples take the library's form, and unknown shapes are typed as JSON.
 */
export function formPlan (schema: unknown, name = '', depth = 0): FormPlan {
  if (!isObject(schema) || depth > DEPTH || saysNothing(schema)) return asJson(schema, name)
  if (Array.isArray(schema['type'])) {
    const { type: _, ...rest } = schema
    const types = (schema['type'] as unknown[]).filter((one) => one !== 'null')
    if (types.length !== 1) return choiceOf(rest, types, name)
    return formPlan({ ...rest, type: types[0] }, name, depth)
  }
  const { properties, items, prefixItems } = schema
  const next: Schema = { ...schema }
  const ui: Record<string, unknown> = {}
  if (isObject(properties)) {
    const plans = Object.entries(properties)
      .map(([key, one]) => [key, formPlan(one, key, depth + 1)] as const)
    next['properties'] = Object.fromEntries(plans.map(([key, plan]) => [key, plan.schema]))
    for (const [key, plan] of plans) if (Object.keys(plan.ui).length > 0) ui[key] = plan.ui
    // Required fields come first.
    const needed = Array.isArray(schema['required']) ? schema['required'] : []
    const first = Object.keys(properties).filter((key) => needed.includes(key))
    if (first.length > 0) ui['ui:order'] = [...first, '*']
  }
  if (schema['type'] === 'array' && Array.isArray(prefixItems)) {
    const { prefixItems: _, ...rest } = next
    return { schema: { ...rest, items: prefixItems, additionalItems: items ?? false }, ui }
  }
  if (schema['type'] === 'array') {
    const plan = formPlan(items, `${name} item`.trim(), depth + 1)
    next['items'] = plan.schema
    if (Object.keys(plan.ui).length > 0) ui['items'] = plan.ui
  }
  return { schema: next, ui }
}

/** Whether any value would do: the form has nothing to show for it. */
function saysNothing (schema: Schema): boolean {
  if (!TELLING.some((key) => key in schema)) return true
  const open = schema['type'] === 'object' && !isObject(schema['additionalProperties'])
  return open && !['properties', 'anyOf', 'oneOf', 'allOf', '$ref', 'if'].some((key) => key in schema)
}

/** The form library leaves out a field without a title. */
function asJson (schema: unknown, name: string): FormPlan {
  const { title, description } = isObject(schema) ? schema : {} as Schema
  return {
    schema: {
      title: typeof title === 'string' ? title : name,
      ...(typeof description === 'string' ? { description } : {})
    },
    ui: AS_JSON
  }
}

/** Of several types: one choice for each that a form can show, else JSON. */
function choiceOf (rest: Schema, types: readonly unknown[], name: string): FormPlan {
  const simple = types.every((one) => typeof one === 'string' && one !== 'object' && one !== 'array')
  if (!simple || types.length === 0) return asJson(rest, name)
  const plain = asJson(rest, name).schema
  return { schema: { ...plain, anyOf: types.map((type) => ({ ...rest, title: type, type })) }, ui: {} }
}

export interface Problem { path: string[], message: string }

/** Keywords whose errors only say that something below them is wrong. */
const WRAPPERS = new Set([
  'properties', 'patternProperties', 'additionalProperties', 'items', 'prefixItems', '$ref', '$dynamicRef',
  'allOf', 'unevaluatedProperties', 'dependentSchemas', 'then', 'else', 'if'
])

/** A value as it would be sent: what is undefined is not there. */
const sent = (value: unknown): unknown =>
  value === undefined ? undefined : JSON.parse(JSON.stringify(value)) as unknown

/** The faults of a value; an unreadable schema is a fault of the whole. */
export function problemsOf (schema: unknown, value: unknown): Problem[] {
  const checked = sent(value)
  if (checked === undefined) return [{ path: [], message: 'There is no value.' }]
  try {
    const { errors } = new Validator(schema as never, '2020-12', false).validate(checked)
    const choices = errors.filter(({ keyword }) => keyword === 'anyOf' || keyword === 'oneOf')
    return errors.filter(({ keyword, keywordLocation }) => !WRAPPERS.has(keyword) &&
      !choices.some((one) => keywordLocation.startsWith(`${one.keywordLocation}/`)))
      .map(({ keyword, instanceLocation, error }) => ({
        path: partsOf(instanceLocation), message: keyword === 'false' ? 'This is not allowed here.' : error
      }))
  } catch (error) {
    return [{ path: [], message: `The schema cannot be checked: ${(error as Error).message}` }]
  }
}

const partsOf = (pointer: string): string[] =>
  pointer.replace(/^#\/?/, '').split('/').filter((part) => part !== '')
    .map((part) => decodeURIComponent(part).replace(/~1/g, '/').replace(/~0/g, '~'))

/** Whether a value fits a part of a schema; references lead into the whole. */
export function fits (schema: Schema, value: unknown, whole: Schema): boolean {
  const shared = Object.fromEntries(['$defs', 'definitions'].filter((key) => key in whole)
    .map((key) => [key, whole[key]]))
  return problemsOf({ ...shared, ...schema }, value).length === 0
}
