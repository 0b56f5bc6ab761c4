import { Validator } from '@cfworker/json-schema'
import { isObject } from '../../../../kernel/api/schema.js'

export type Schema = Record<string, unknown>

const TELLING = ['enum', 'const', 'anyOf', 'oneOf', 'allOf', '$ref', 'if', 'properties', 'items']

/** Whether a schema is too general for form fields: it allows several types, or any content. */
export function isOpen (schema: unknown): boolean {
  if (!isObject(schema)) return true
  const types = [schema['type'] ?? []].flat().filter((type) => type !== 'null')
  if (types.length > 1) return true
  const shaped = TELLING.some((key) => schema[key] !== undefined && schema[key] !== true) ||
    isObject(schema['additionalProperties'])
  return !shaped && (types.length === 0 || types[0] === 'object' || types[0] === 'array')
}

export interface Problem { path: string[], message: string }

/** Keywords whose errors only repeat an error from a nested schema. */
const WRAPPERS = new Set([
  'properties', 'patternProperties', 'additionalProperties', 'items', 'prefixItems', '$ref', '$dynamicRef',
  'allOf', 'unevaluatedProperties', 'dependentSchemas', 'then', 'else', 'if'
])

/** A value as JSON sends it, without undefined fields. */
const sent = (value: unknown): unknown =>
  value === undefined ? undefined : JSON.parse(JSON.stringify(value)) as unknown

/** The validation errors for a value; for a schema that cannot be compiled, one error at the root. */
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

/** Whether a value matches a subschema of `whole`, which supplies the definitions for `$ref`. */
export function fits (schema: Schema, value: unknown, whole: Schema): boolean {
  const shared = Object.fromEntries(['$defs', 'definitions'].filter((key) => key in whole)
    .map((key) => [key, whole[key]]))
  return problemsOf({ ...shared, ...schema }, value).length === 0
}
