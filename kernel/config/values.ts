import { isIP } from 'node:net'
import { isOpenBound } from '../api/bounds.js'
import { parseJson, type JsonSchema } from '../api/schema.js'
import { hostProblem } from '../net/addresses.js'
import { withoutUrlSecrets } from '../net/urls.js'
import { cleanCopy, isTree, printable } from './paths.js'

/** Describes in words what a schema expects: `a whole number from 0 to 65535`. */
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

/** JSON types that a schema allows: its `type`, or those of its `const`, `enum`, `anyOf` or `oneOf`. */
export function typesOf (schema: JsonSchema): string[] {
  const named = schema['type']
  if (named !== undefined) return [named].flat().map(String)
  const values = 'const' in schema ? [schema['const']] : schema['enum'] as unknown[] | undefined
  const parts = (schema['anyOf'] ?? schema['oneOf'] ?? []) as JsonSchema[]
  return [...new Set(values?.map(typeName) ?? parts.flatMap(typesOf))]
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

/** The schema without the default limits for strings and lists, since no user reaches those. */
const ownBounds = (schema: JsonSchema): JsonSchema =>
  Object.fromEntries(Object.entries(schema).filter(([key, value]) => !isOpenBound(key, value)))

function describeText (schema: JsonSchema): string {
  const { format, pattern, minLength, maxLength } = ownBounds(schema)
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
  const { items, minItems, maxItems, uniqueItems } = ownBounds(schema)
  const parts = [uniqueItems === true ? 'a list without repeats' : 'a list']
  if (minItems !== undefined) parts.push(`of at least ${minItems}`)
  if (maxItems !== undefined) parts.push(`of at most ${maxItems}`)
  return parts.join(' ') + (isTree(items) ? `, each ${describe(items)}` : '')
}

/** Formats an invalid value for a message: short, on one line; for lists and maps only the type is named. */
export function show (value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`
  if (typeof value === 'object') return 'keys with values'
  if (typeof value !== 'string') return String(value)
  const plain = withoutUrlSecrets(value)
  const short = plain.length > 60 ? plain.slice(0, 60) + '…' : plain
  return printable(JSON.stringify(short))
}

interface Format { readonly test: (text: string) => boolean, readonly expected: string }

const hostLabel = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i
const onlyDigitsAndDots = /^[\d.]+$/

function isHost (text: string): boolean {
  if (isIP(text) !== 0) return true
  const labels = text.replace(/\.$/, '').split('.')
  return text.length <= 253 && !onlyDigitsAndDots.test(text) && labels.every((label) => hostLabel.test(label))
}

function isHostPort (text: string): boolean {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text)
  return match !== null && isHost(match[1] ?? match[2]!) && Number(match[3]) > 0 &&
    isSendUrl(`http://${text}`)
}

function isHttpUrl (text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : null
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
}

function isSendUrl (text: string): boolean {
  return isHttpUrl(text) && hostProblem(new URL(text).hostname, 'named') === null
}

/** Extensions and desktop apps have origins too, with schemes other than http. */
function isOrigin (text: string): boolean {
  return isHttpUrl(text) && new URL(text).origin === text ||
    /^(?!https?:|wss?:|ftp:|file:)[a-z][a-z\d+.-]*:\/\/[\w.-]+(:\d{1,5})?$/.test(text)
}

function isCidr (text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}

function isExpression (text: string): boolean {
  try { return RegExp(text) !== null } catch { return false }
}

/** True for an explicit path: `./x`, `../x` or `/x`. */
export function isModulePath (text: string): boolean { return /^(\.{1,2})?\//.test(text) }

const packageName = /^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(\/[\w-][\w.-]*)*$/i

function isModule (text: string): boolean {
  return isModulePath(text) ? !text.includes('\0') : packageName.test(text)
}

/** Values of `format` allowed in configuration schemas, with their descriptions. */
export const formats: Readonly<Record<string, Format>> = {
  host: { test: isHost, expected: 'a host name or an IP address' },
  'host-port': {
    test: isHostPort,
    expected: 'an address with a port, like attic.lan:52416, neither link-local nor a cloud metadata ' +
      'service'
  },
  origin: { test: isOrigin, expected: 'an origin like https://host:port or app://name, without a path' },
  cidr: { test: isCidr, expected: 'an IP address or a range like 10.0.0.0/8' },
  'http-url': {
    test: isSendUrl,
    expected: 'an http or https address without a password, and not a cloud metadata service'
  },
  module: { test: isModule, expected: 'a path starting with ./, ../ or /, or a package name; never a URL' },
  uri: { test: (text) => URL.canParse(text), expected: 'a URI' },
  regex: { test: isExpression, expected: 'a regular expression' }
}

const numeric = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i
const booleans: Readonly<Record<string, boolean>> = { true: true, 1: true, false: false, 0: false }

/**
 * Converts text (a variable, an argument) to the schema's type: numbers; `true`, `false`, `1` and `0` for
 * booleans; comma-separated lists of text; JSON for everything else. Undefined if the text does not fit the
 * type; other limits are not checked.
 */
export function parseTyped (text: string, schema: JsonSchema): unknown {
  const types = typesOf(schema)
  const trimmed = text.trim()
  const allows = (type: string): boolean => types.includes(type)
  if (allows('null') && trimmed === 'null') return null
  if ((allows('integer') || allows('number')) && numeric.test(trimmed)) return Number(trimmed)
  if (allows('boolean') && Object.hasOwn(booleans, trimmed)) return booleans[trimmed]
  if (allows('array') && isListOfText(schema) && !trimmed.startsWith('[')) return splitList(trimmed)
  if (allows('array') || allows('object') || types.length === 0) {
    const value = parseClean(trimmed)
    if (value !== undefined) return value
  }
  return allows('string') || types.length === 0 ? text : undefined
}

export function hasType (value: unknown, schema: JsonSchema): boolean {
  const types = typesOf(schema)
  if (types.length === 0) return true
  if (typeof value !== 'number') return types.includes(typeName(value))
  const fits = types.includes('number') || (types.includes('integer') && Number.isInteger(value))
  return fits && Number.isFinite(value)
}

function isListOfText (schema: JsonSchema): boolean {
  const items = schema['items']
  return isTree(items) && typesOf(items).join() === 'string'
}

function splitList (text: string): string[] {
  return text === '' ? [] : text.split(',').map((item) => item.trim())
}

/** Parses JSON; undefined for invalid JSON and for forbidden keys. */
function parseClean (text: string): unknown {
  let refused = false
  const value = cleanCopy(parseJson(text), () => { refused = true })
  return refused ? undefined : value
}
