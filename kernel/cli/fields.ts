import { nearest } from '../config/nearest.js'
import { describe, hasType, parseTyped, typesOf } from '../config/values.js'
import { usageError } from './errors.js'
import type { JsonSchema } from '../api/schema.js'

type Props = Readonly<Record<string, JsonSchema>>

export function fieldsOf (schema: JsonSchema): Props { return (schema['properties'] ?? {}) as Props }

/**
 * Converts `--name value`, `--name=value` and bare `--name` (a boolean) to a payload typed by the schema.
 * Names may use dashes for underscores; list fields may repeat. Throws CliError (2) for an unknown field, a
 * missing value or a value of the wrong type.
 */
export function parseFields (words: readonly string[], schema: JsonSchema): Record<string, unknown> {
  const fields = fieldsOf(schema)
  const payload: Record<string, unknown> = {}
  for (let i = 0; i < words.length; i++) {
    const { flag, attached } = splitFlag(words[i]!)
    const name = fieldName(flag, fields, schema)
    const types = typesOf(fields[name] ?? {})
    const bare = attached === undefined && types.includes('boolean') &&
      !/^(true|false)$/.test(words[i + 1] ?? '')
    const text = attached ?? (bare ? 'true' : words[++i])
    if (text === undefined) throw usageError(`--${flag} needs a value`)
    put(payload, name, flag, text, fields[name] ?? {})
  }
  return payload
}

function splitFlag (word: string): { flag: string, attached: string | undefined } {
  const match = /^--([^=]+)(?:=([\s\S]*))?$/.exec(word)
  if (match === null) throw usageError(`"${word}" is not a field; write --name value`)
  return { flag: match[1]!, attached: match[2] }
}

function fieldName (flag: string, fields: Props, schema: JsonSchema): string {
  if (Object.hasOwn(fields, flag)) return flag
  const snake = flag.replaceAll('-', '_')
  if (Object.hasOwn(fields, snake)) return snake
  if (schema['additionalProperties'] !== false) return flag
  const near = nearest(flag, Object.keys(fields))
  const meant = near === undefined ? '' : `; did you mean --${near}?`
  throw usageError(`the capability has no field "${flag}"${meant}\n` +
    `  its fields: ${Object.keys(fields).join(', ') || 'none'}`)
}

function put (
  payload: Record<string, unknown>, name: string, flag: string, text: string, schema: JsonSchema
): void {
  const known = Object.hasOwn(payload, name)
  if (typesOf(schema).includes('array') && !text.startsWith('[')) {
    const items = known ? payload[name] as unknown[] : []
    payload[name] = [...items, parseValue(flag, text, (schema['items'] ?? {}) as JsonSchema)]
    return
  }
  if (known) throw usageError(`--${flag} is given twice`)
  payload[name] = parseValue(flag, text, schema)
}

function parseValue (flag: string, text: string, schema: JsonSchema): unknown {
  const value = parseTyped(text, schema)
  if (value !== undefined && hasType(value, schema)) return value
  throw usageError(`--${flag} must be ${describe(schema)}, not ${JSON.stringify(text)}`)
}
