/** Reads calls and literals in Python syntax. */
import type { Input, Reading } from '../parse/input.js'
import type { CallSink, ToolFormat } from './format.js'
import { readObjects } from './json-calls.js'

const WORDS: Readonly<Record<string, string>> =
  { True: 'true', False: 'false', None: 'null', true: 'true', false: 'false', null: 'null' }
const ESCAPES: Readonly<Record<string, string>> =
  { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', '0': '\0', '\n': '' }
const MAX_DEPTH = 64

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
  if (c === '"' || c === "'") return yield * readText(input)
  if (depth < MAX_DEPTH && '[({'.includes(c) && c !== '') return yield * readItems(input, depth + 1)
  if (/[-+.\d]/.test(c)) {
    const written = (yield * input.run(/[-+.\w]/)).replaceAll('_', '')
    const number = Number(written.startsWith('+') ? written.slice(1) : written)
    return written === '' || !Number.isFinite(number) ? null : JSON.stringify(number)
  }
  const word = yield * input.run(/\w/)
  return Object.hasOwn(WORDS, word) ? WORDS[word] as string : null
}

function * readItems (input: Input, depth: number): Reading<string | null> {
  const open = yield * input.next()
  const close = open === '[' ? ']' : open === '(' ? ')' : '}'
  const items: string[] = []
  for (;;) {
    yield * input.space()
    if (yield * input.take(close)) break
    const item = yield * readLiteral(input, depth)
    if (item === null) return null
    yield * input.space()
    let value: string | null = ''
    if (open === '{') value = (yield * input.take(':')) ? yield * readLiteral(input, depth) : null
    if (value === null) return null
    items.push(open === '{' ? `${item.startsWith('"') ? item : JSON.stringify(item)}: ${value}` : item)
    yield * input.space()
    if (!(yield * input.take(',')) && (yield * input.peek()) !== close) return null
  }
  return open === '{' ? `{${items.join(', ')}}` : `[${items.join(', ')}]`
}

function * readText (input: Input): Reading<string | null> {
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

const [START, END] = ['<|tool_call_start|>', '<|tool_call_end|>']

/** LFM2's format: `[name(key="value"), …]` between markers. */
export const lfm: ToolFormat = {
  shows: [START, END],
  hints: [START, '<|tool_list_start|>', 'List of tools: ['],
  opens: [START],
  inner: [END],
  * read (input, out) {
    if (!(yield * readPythonCalls(input, out))) yield * readObjects(input, out)
    yield * input.space()
    yield * input.take(END)
  }
}
