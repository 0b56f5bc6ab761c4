import type { JsonSchema } from '../api/schema.js'
import { formats } from './formats.js'
import { isTree, printable } from './paths.js'

/** What a schema asks for, in words: `a whole number from 0 to 65535`. */
export function describe (schema: JsonSchema): string {
  const own = schema['x-expected']
  if (typeof own === 'string') return own
  const values = Array.isArray(schema['enum']) ? schema['enum'] : 'const' in schema ? [schema['const']] : null
  if (values !== null) return values.length === 1 ? show(values[0]) : `one of ${values.map(show).join(', ')}`
  const choice = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(choice)) return [...new Set(choice.filter(isTree).map(describe))].join(' or ')
  const types = typesOf(schema)
  return types.length === 0 ? 'another value' : types.map((type) => describeType(type, schema)).join(' or ')
}

/** The JSON types a schema allows; empty when it does not say. */
export function typesOf (schema: JsonSchema): string[] {
  const type = schema['type']
  if (typeof type === 'string') return [type]
  if (Array.isArray(type)) return type.map(String)
  const values = Array.isArray(schema['enum']) ? schema['enum'] : 'const' in schema ? [schema['const']] : []
  return [...new Set(values.map(typeName))]
}

function typeName (value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function describeType (type: string, schema: JsonSchema): string {
  switch (type) {
    case 'integer': return 'a whole number' + range(schema)
    case 'number': return 'a number' + range(schema)
    case 'boolean': return 'true or false'
    case 'string': return describeText(schema)
    case 'array': return describeList(schema)
    case 'object': return 'keys with values'
    default: return 'nothing (null)'
  }
}

function range (schema: JsonSchema): string {
  const { minimum, maximum, multipleOf } = schema as Record<string, number>
  const { exclusiveMinimum, exclusiveMaximum } = schema as Record<string, number>
  const parts: string[] = []
  if (minimum !== undefined && maximum !== undefined) parts.push(`from ${minimum} to ${maximum}`)
  else if (minimum !== undefined) parts.push(`of at least ${minimum}`)
  else if (maximum !== undefined) parts.push(`of at most ${maximum}`)
  if (exclusiveMinimum !== undefined) parts.push(`above ${exclusiveMinimum}`)
  if (exclusiveMaximum !== undefined) parts.push(`below ${exclusiveMaximum}`)
  if (multipleOf !== undefined) parts.push(`in steps of ${multipleOf}`)
  return parts.length === 0 ? '' : ' ' + parts.join(', ')
}

function describeText (schema: JsonSchema): string {
  const { format, pattern, minLength, maxLength } = schema
  const named = typeof format === 'string' ? formats[format]?.expected : undefined
  if (named !== undefined) return named
  const length = minLength !== undefined && maxLength !== undefined
    ? ` of ${minLength} to ${maxLength} characters`
    : minLength !== undefined
      ? minLength === 1 ? ' that is not empty' : ` of at least ${minLength} characters`
      : maxLength !== undefined ? ` of at most ${maxLength} characters` : ''
  return 'text' + length + (typeof pattern === 'string' ? ` matching ${pattern}` : '')
}

function describeList (schema: JsonSchema): string {
  const { items, minItems, maxItems, uniqueItems } = schema
  const parts = [uniqueItems === true ? 'a list without repeats' : 'a list']
  if (minItems !== undefined) parts.push(`of at least ${minItems}`)
  if (maxItems !== undefined) parts.push(`of at most ${maxItems}`)
  return parts.join(' ') + (isTree(items) ? `, each ${describe(items)}` : '')
}

/** A found value for a message: short, on one line, lists and maps only named. */
export function show (value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`
  if (typeof value === 'object') return 'keys with values'
  if (typeof value !== 'string') return String(value)
  const short = value.length > 60 ? value.slice(0, 60) + '…' : value
  return printable(JSON.stringify(short))
}
