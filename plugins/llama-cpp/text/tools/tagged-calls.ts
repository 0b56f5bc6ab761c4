/** Reads calls whose arguments are written one by one between tags, with strings unquoted. */
import { isObject, parsed } from '../../../runners/language/json.js'
import type { Input, Reading } from '../parse/input.js'
import { NAME_ONLY, type CallSink, type ToolFormat } from './format.js'
import { skipPast } from './json-calls.js'

const WORDS = new Map([['True', 'true'], ['False', 'false'], ['None', 'null']])
/** Limits for following a schema's references and alternatives: depth, and number of subschemas. */
const MAX_DEPTH = 8
const MAX_PLACES = 1000

/** Builds the JSON object of one call's arguments. */
class Arguments {
  private readonly out: CallSink
  private readonly schema: unknown
  private before = '{'

  constructor (out: CallSink, name: string) {
    this.out = out
    this.schema = out.parameters(name)
    out.call(name)
  }

  /**
   * Reads a value up to one of `ends` and returns that end, or '' at the end of the output. Removes
   * `trailing` if the value ends with it. Streams the value of a string parameter unchanged.
   */
  * read (input: Input, key: string, ends: readonly string[], trailing = ''): Reading<string> {
    const { out } = this
    const kinds = kindsOfProperty(this.schema, key)
    out.args(`${this.before}${JSON.stringify(key)}: `)
    this.before = ', '
    const isText = kinds?.size === 1 && kinds.has('string')
    let held = ''
    let whole = ''
    const give = (text: string): void => {
      whole += text
      if (!isText) return
      const all = held + text
      const end = all.endsWith(trailing) ? all.length - trailing.length : all.length
      held = all.slice(end)
      out.args(JSON.stringify(all.slice(0, end)).slice(1, -1))
    }
    if (isText) out.args('"')
    const found = yield * input.until(ends, give)
    if (isText) out.args(found === '' ? '' : '"')
    else {
      const end = whole.endsWith(trailing) ? whole.length - trailing.length : whole.length
      out.args(typed(whole.slice(0, end), kinds))
    }
    return found
  }

  end (): void { this.out.args(this.before === '{' ? '{}' : '}') }
}

/** Converts a value to JSON according to its schema's types; null if these are unknown. */
function typed (written: string, kinds: ReadonlySet<string> | null): string {
  const text = written.trim()
  // Models also write Python's literals, such as True and None.
  const word = WORDS.get(text) ?? text
  const value = parsed(word)
  if (value === undefined || typeof value === 'string') return JSON.stringify(written)
  const kind = kindOf(value)
  const fits = kinds === null || kinds.has(kind) ||
    (kind === 'number' && kinds.has('integer') && Number.isInteger(value))
  return fits || !kinds.has('string') ? word : JSON.stringify(written)
}

const kindOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value

/** The types that a property may have; null if the schema does not restrict them. */
function kindsOfProperty (schema: unknown, key: string): Set<string> | null {
  const at = resolved(schema, schema, 0)
  const properties = at?.['properties']
  if (!isObject(properties) || !Object.hasOwn(properties, key)) return null
  return kindsOf(properties[key], schema, 0, { left: MAX_PLACES })
}

function resolved (schema: unknown, root: unknown, depth: number): Record<string, unknown> | null {
  if (!isObject(schema)) return null
  const ref = schema['$ref']
  if (typeof ref !== 'string') return schema
  if (depth > MAX_DEPTH || !ref.startsWith('#/')) return null
  let at: unknown = root
  for (const part of ref.slice(2).split('/')) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined
  }
  return resolved(at, root, depth + 1)
}

function kindsOf (
  given: unknown, root: unknown, depth: number, places: { left: number }
): Set<string> | null {
  const schema = resolved(given, root, depth)
  if (schema === null || depth > MAX_DEPTH || --places.left < 0) return null
  const { type, enum: listed } = schema
  if (type !== undefined) {
    return new Set([...[type].flat().map(String), ...schema['nullable'] === true ? ['null'] : []])
  }
  const values = 'const' in schema ? [schema['const']] : Array.isArray(listed) ? listed as unknown[] : null
  if (values !== null) return new Set(values.map(kindOf))
  const parts = [schema['anyOf'], schema['oneOf']].find(Array.isArray) as unknown[] | undefined
  if (parts === undefined) return null
  const all = parts.map((part) => kindsOf(part, root, depth + 1, places))
  return all.includes(null) ? null : new Set(all.flatMap((kinds) => [...kinds as Set<string>]))
}

const [OPEN, END, KEY, KEY_END] = ['<tool_call>', '</tool_call>', '<arg_key>', '</arg_key>']
const [VALUE, VALUE_END] = ['<arg_value>', '</arg_value>']

/** Format of GLM since 4.5: `<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`. */
export const glm: ToolFormat = {
  shows: [OPEN, KEY, VALUE],
  hints: [KEY],
  opens: [OPEN],
  inner: [END, KEY, KEY_END, VALUE, VALUE_END],
  * read (input, out) {
    let name = yield * input.space()
    const first = yield * input.until([KEY, END, '\n'], (text) => { name += text })
    if (!NAME_ONLY.test(name.trim())) {
      input.put(name + first)
      yield * input.until([END], (text) => { out.content(text) })
      return
    }
    const values = new Arguments(out, name.trim())
    let marker = first === '\n' ? yield * input.until([KEY, END], () => {}) : first
    while (marker === KEY) {
      let key = ''
      yield * input.until([KEY_END], (text) => { key += text })
      yield * skipPast(input, VALUE)
      if ((yield * values.read(input, key.trim(), [VALUE_END])) === '') return
      marker = yield * input.until([KEY, END], () => {})
    }
    if (marker === END) values.end()
  }
}

const [FUNCTION, FUNCTION_END, PARAMETER, PARAMETER_END] =
  ['<function=', '</function>', '<parameter=', '</parameter>']

/** Reads the rest of a function after `<function=`; false if the output ends before the function does. */
function * readFunction (input: Input, out: CallSink): Reading<boolean> {
  let name = ''
  if ((yield * input.until(['>'], (text) => { name += text })) === '') {
    out.content(FUNCTION + name)
    return false
  }
  const values = new Arguments(out, name.trim())
  let marker = yield * input.until([PARAMETER, FUNCTION_END, END], () => {})
  while (marker === PARAMETER) {
    let key = ''
    yield * input.until(['>'], (text) => { key += text })
    yield * input.take('\n')
    // Some models omit a parameter's closing tag, so the function's closing tag ends the value too.
    const ended = yield * values.read(input, key.trim(), [PARAMETER_END, FUNCTION_END], '\n')
    if (ended === '') return false
    marker = ended === PARAMETER_END ? yield * input.until([PARAMETER, FUNCTION_END, END], () => {}) : ended
  }
  if (marker === '') return false
  values.end()
  if (marker === END) input.put(END)
  return true
}

/** `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>`: Qwen3-Coder, Nemotron 3. */
export const qwenCoder: ToolFormat = {
  shows: [FUNCTION, PARAMETER],
  hints: [FUNCTION],
  opens: [OPEN, FUNCTION],
  inner: [END],
  * read (input, out, opened) {
    if (opened === OPEN) {
      const space = yield * input.space()
      if (!(yield * input.take(FUNCTION))) {
        out.content(space)
        yield * input.until([END], (text) => { out.content(text) })
        return
      }
    }
    while (yield * readFunction(input, out)) {
      yield * input.space()
      if (!(yield * input.take(FUNCTION))) break
    }
    yield * input.take(END)
  }
}
