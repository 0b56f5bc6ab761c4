/** Reads calls whose arguments are literals, in the syntax of Python or of Gemma. */
import { parsed } from '../../../runners/language/json.js'
import type { Input, Reading } from '../parse/input.js'
import type { CallSink, ToolFormat } from './format.js'
import { readObjects, skipPast } from './json-calls.js'

const WORDS: Readonly<Record<string, string>> =
  { True: 'true', False: 'false', None: 'null', true: 'true', false: 'false', null: 'null' }
const ESCAPES: Readonly<Record<string, string>> =
  { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', '0': '\0', '\n': '' }
const MAX_DEPTH = 64

/** Reads items with commas between them up to `close`, as JSON text; null if an item is invalid. */
function * readItems (
  input: Input, close: string, readItem: () => Reading<string | null>
): Reading<string | null> {
  const items: string[] = []
  for (;;) {
    yield * input.space()
    if (yield * input.take(close)) break
    const item = yield * readItem()
    if (item === null) return null
    items.push(item)
    yield * input.space()
    if (!(yield * input.take(',')) && (yield * input.peek()) !== close) return null
  }
  return close === '}' ? `{${items.join(', ')}}` : `[${items.join(', ')}]`
}

/** Reads `[name(key=value, …), …]`; returns false and consumes no text if the text differs. */
function * readPythonCalls (input: Input, out: CallSink): Reading<boolean> {
  input.mark()
  yield * input.space()
  const list = yield * input.take('[')
  let found = false
  for (;;) {
    yield * input.space()
    const name = yield * input.run(/[\w.]/)
    if (!/^[A-Za-z_]/.test(name) || !(yield * input.take('('))) break
    if (!(yield * readParameters(input, out, name, found))) break
    found = true
    yield * input.space()
    if (!list || !(yield * input.take(','))) break
  }
  if (!found) {
    input.back()
    return false
  }
  if (list) yield * input.take(']')
  return true
}

/** Reads a call's parameters. Reports the call only once it has read the first parameter's name. */
function * readParameters (input: Input, out: CallSink, name: string, certain: boolean): Reading<boolean> {
  let before = '{'
  const begin = (): void => {
    if (before !== '{') return
    input.keep()
    out.call(name)
  }
  for (;;) {
    yield * input.space()
    if (yield * input.take(')')) {
      begin()
      out.args(before === '{' ? '{}' : '}')
      return true
    }
    const key = yield * input.run(/\w/)
    yield * input.space()
    const named = key !== '' && (yield * input.take('='))
    const value = named ? yield * readLiteral(input, 0) : null
    if (value === null) {
      // The value is not a literal, so end the call with the parameters read so far.
      if (before !== '{') out.args('}')
      return before !== '{' || certain
    }
    begin()
    out.args(`${before}${JSON.stringify(key)}: ${value}`)
    before = ', '
    yield * input.space()
    yield * input.take(',')
  }
}

/** Reads a literal as JSON text; null if invalid. */
function * readLiteral (input: Input, depth: number): Reading<string | null> {
  yield * input.space()
  const c = yield * input.peek()
  if (c === '"' || c === "'") return yield * readQuoted(input)
  if (depth < MAX_DEPTH && '[({'.includes(c) && c !== '') {
    yield * input.next()
    const close = c === '[' ? ']' : c === '(' ? ')' : '}'
    return yield * readItems(input, close, () => readItem(input, depth + 1, close))
  }
  if (/[-+.\d]/.test(c)) {
    const written = (yield * input.run(/[-+.\w]/)).replaceAll('_', '')
    const number = Number(written.startsWith('+') ? written.slice(1) : written)
    return written === '' || !Number.isFinite(number) ? null : JSON.stringify(number)
  }
  const word = yield * input.run(/\w/)
  return Object.hasOwn(WORDS, word) ? WORDS[word] as string : null
}

function * readItem (input: Input, depth: number, close: string): Reading<string | null> {
  const item = yield * readLiteral(input, depth)
  if (item === null || close !== '}') return item
  yield * input.space()
  const value = (yield * input.take(':')) ? yield * readLiteral(input, depth) : null
  return value === null ? null : `${item.startsWith('"') ? item : JSON.stringify(item)}: ${value}`
}

function * readQuoted (input: Input): Reading<string | null> {
  const quote = yield * input.next()
  let text = ''
  for (;;) {
    const c = yield * input.next()
    if (c === '') return null
    if (c === quote) return JSON.stringify(text)
    if (c !== '\\') {
      text += c
      continue
    }
    const escape = yield * input.next()
    const digits = escape === 'x' ? 2 : escape === 'u' ? 4 : escape === 'U' ? 8 : 0
    const code = parseInt(yield * input.run(/[0-9a-fA-F]/, digits), 16)
    if (digits > 0 && code <= 0x10ffff) text += String.fromCodePoint(code)
    else if (digits === 0) text += ESCAPES[escape] ?? escape
  }
}

const [START, STOP] = ['<|tool_call_start|>', '<|tool_call_end|>']

/** LFM2's format: `[name(key="value"), …]` between markers. */
export const lfm: ToolFormat = {
  shows: [START, STOP],
  hints: [START, '<|tool_list_start|>', 'List of tools: ['],
  opens: [START],
  inner: [STOP],
  * read (input, out) {
    if (!(yield * readPythonCalls(input, out))) yield * readObjects(input, out)
    yield * input.space()
    yield * input.take(STOP)
  }
}

const [OPEN, END, QUOTE] = ['<|tool_call>', '<tool_call|>', '<|"|>']

/** Reads a string between two markers, or a JSON string; undefined if neither begins here. */
function * readMarked (input: Input): Reading<string | null | undefined> {
  let text = ''
  if (yield * input.take(QUOTE)) {
    return (yield * input.until([QUOTE], (more) => { text += more })) === '' ? null : text
  }
  if (!(yield * input.take('"'))) return undefined
  for (let c = yield * input.next(); c !== '"'; c = yield * input.next()) {
    if (c === '') return null
    text += c === '\\' ? c + (yield * input.next()) : c
  }
  const value = parsed(`"${text}"`)
  return typeof value === 'string' ? value : text
}

/** Reads a value as JSON text; null if invalid. */
function * readValue (input: Input, depth: number): Reading<string | null> {
  yield * input.space()
  const text = yield * readMarked(input)
  if (text !== undefined) return text === null ? null : JSON.stringify(text)
  const list = yield * input.take('[')
  if (list || (yield * input.take('{'))) {
    if (depth >= MAX_DEPTH) return null
    return yield * (list ? readItems(input, ']', () => readValue(input, depth + 1)) : readMap(input, depth))
  }
  const word = (yield * input.run(/[^,\]}<]/)).trim()
  if (word === '') return 'null'
  if (Object.hasOwn(WORDS, word)) return WORDS[word] as string
  return parsed(word) === undefined ? JSON.stringify(word) : word
}

/** Reads `key:value,…}`; a key may be a bare word. */
const readMap = (input: Input, depth: number): Reading<string | null> =>
  readItems(input, '}', function * (): Reading<string | null> {
    const text = yield * readMarked(input)
    let bare = ''
    if ((yield * input.until([':'], (more) => { bare += more })) === '' || text === null) return null
    const value = yield * readValue(input, depth + 1)
    return value === null ? null : `${JSON.stringify(text ?? bare.trim())}: ${value}`
  })

/** Gemma 4's format: `call:NAME{key:value,…}` between two markers, with another marker around strings. */
export const gemma: ToolFormat = {
  shows: [OPEN, 'call:'],
  opens: [OPEN],
  inner: [END, QUOTE],
  * read (input, out) {
    yield * input.space()
    yield * input.take('call:')
    let name = ''
    const brace = yield * input.until(['{', END], (text) => { name += text })
    if (brace !== '{') return out.content(name)
    out.call(name.trim())
    // Report broken arguments as invalid JSON, so that they do not look like a call without arguments.
    out.args((yield * readMap(input, 0)) ?? '{')
    yield * skipPast(input, END)
  }
}
