import type { Input, Reading } from '../parse/input.js'
import { parsed } from '../../../runners/language/json.js'
import type { ToolFormat } from './format.js'
import { skipPast } from './json-calls.js'

const [OPEN, END, QUOTE] = ['<|tool_call>', '<tool_call|>', '<|"|>']
const MAX_DEPTH = 64
const WORDS: Readonly<Record<string, string>> = { '': 'null', None: 'null', True: 'true', False: 'false' }

/** Reads a string between two markers, or a JSON string; undefined if neither begins here. */
function * readText (input: Input): Reading<string | null | undefined> {
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
  const text = yield * readText(input)
  if (text !== undefined) return text === null ? null : JSON.stringify(text)
  const list = yield * input.take('[')
  if (list || (yield * input.take('{'))) {
    return depth < MAX_DEPTH ? yield * readItems(input, depth, list ? ']' : '}') : null
  }
  const word = (yield * input.run(/[^,\]}<]/)).trim()
  if (Object.hasOwn(WORDS, word)) return WORDS[word] as string
  return parsed(word) === undefined ? JSON.stringify(word) : word
}

function * readItems (input: Input, depth: number, close: string): Reading<string | null> {
  const items: string[] = []
  for (;;) {
    yield * input.space()
    if (yield * input.take(close)) break
    const key = close === '}' ? yield * readKey(input) : ''
    const value = key === null ? null : yield * readValue(input, depth + 1)
    if (key === null || value === null) return null
    items.push(close === '}' ? `${JSON.stringify(key)}: ${value}` : value)
    yield * input.space()
    if (!(yield * input.take(',')) && (yield * input.peek()) !== close) return null
  }
  return close === '}' ? `{${items.join(', ')}}` : `[${items.join(', ')}]`
}

function * readKey (input: Input): Reading<string | null> {
  const text = yield * readText(input)
  let bare = ''
  const found = yield * input.until([':'], (more) => { bare += more })
  return found === '' || text === null ? null : text ?? bare.trim()
}

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
    out.args((yield * readItems(input, 0, '}')) ?? '{')
    yield * skipPast(input, END)
  }
}
