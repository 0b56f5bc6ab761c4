import type { JsonSchema } from '../api/schema.js'
import { typesOf } from './describe.js'
import { cleanCopy, isTree } from './paths.js'

const number = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i
const truths: Readonly<Record<string, boolean>> = { true: true, 1: true, false: false, 0: false }

/**
 * Reads a value that arrives as text (a variable, an argument) by the schema of its setting: numbers, `true`,
 * `false`, `1` and `0` for booleans, comma lists for lists of text, JSON for everything else.
 * Returns undefined when the text is no such value.
 */
export function parseTyped (text: string, schema: JsonSchema): unknown {
  const types = typesOf(schema)
  const trimmed = text.trim()
  const allows = (type: string): boolean => types.includes(type)
  if (allows('null') && trimmed === 'null') return null
  if ((allows('integer') || allows('number')) && number.test(trimmed)) return Number(trimmed)
  if (allows('boolean') && Object.hasOwn(truths, trimmed)) return truths[trimmed]
  if (allows('array') && isListOfText(schema) && !trimmed.startsWith('[')) return splitList(trimmed)
  if (allows('array') || allows('object') || types.length === 0) {
    const value = parseJson(trimmed)
    if (value !== undefined) return value
  }
  return allows('string') ? text : undefined
}

function isListOfText (schema: JsonSchema): boolean {
  const items = schema['items']
  return isTree(items) && typesOf(items).join() === 'string'
}

function splitList (text: string): string[] {
  return text === '' ? [] : text.split(',').map((item) => item.trim())
}

function parseJson (text: string): unknown {
  try {
    let refused = false
    const value = cleanCopy(JSON.parse(text), () => { refused = true })
    return refused ? undefined : value
  } catch {
    return undefined
  }
}
