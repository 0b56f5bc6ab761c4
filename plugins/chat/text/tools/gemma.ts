import { Sequence } from '../grammar/rules.js'
import type { Writing } from '../grammar/fields.js'
import type { Input, Reading } from '../parse/input.js'
import { parsed } from '../../json.js'
import { eachTool, repeated, type ToolFormat } from './format.js'
import { skipPast } from './json-calls.js'

/** Levels of lists and objects in one value. */
const MAX_DEPTH = 64
const WORDS: Readonly<Record<string, string>> = { '': 'null', None: 'null', True: 'true', False: 'false' }

/** Reads a text between two of `quote`, or as JSON has it; undefined where another character comes. */
function * readText (input: Input, quote: string): Reading<string | null | undefined> {
  let text = ''
  if (yield * input.take(quote)) {
    return (yield * input.until([quote], (more) => { text += more })) === '' ? null : text
  }
  if (!(yield * input.take('"'))) return undefined
  for (let c = yield * input.next(); c !== '"'; c = yield * input.next()) {
    if (c === '') return null
    text += c === '\\' ? c + (yield * input.next()) : c
  }
  const value = parsed(`"${text}"`)
  return typeof value === 'string' ? value : text
}

/** Reads a value as JSON text; `quote` stands around texts. Null where it is none. */
function * readValue (input: Input, quote: string, depth: number): Reading<string | null> {
  yield * input.space()
  const text = yield * readText(input, quote)
  if (text !== undefined) return text === null ? null : JSON.stringify(text)
  const list = yield * input.take('[')
  if (list || (yield * input.take('{'))) {
    return depth < MAX_DEPTH ? yield * readItems(input, quote, depth, list ? ']' : '}') : null
  }
  const word = (yield * input.run(/[^,\]}<]/)).trim()
  if (Object.hasOwn(WORDS, word)) return WORDS[word] as string
  return parsed(word) === undefined ? JSON.stringify(word) : word
}

/** Reads what is left of a list or an object. */
function * readItems (input: Input, quote: string, depth: number, close: string): Reading<string | null> {
  const items: string[] = []
  for (;;) {
    yield * input.space()
    if (yield * input.take(close)) break
    const key = close === '}' ? yield * readKey(input, quote) : ''
    const value = key === null ? null : yield * readValue(input, quote, depth + 1)
    if (key === null || value === null) return null
    items.push(close === '}' ? `${JSON.stringify(key)}: ${value}` : value)
    yield * input.space()
    if (!(yield * input.take(',')) && (yield * input.peek()) !== close) return null
  }
  return close === '}' ? `{${items.join(', ')}}` : `[${items.join(', ')}]`
}

function * readKey (input: Input, quote: string): Reading<string | null> {
  const text = yield * readText(input, quote)
  let bare = ''
  const found = yield * input.until([':'], (more) => { bare += more })
  return found === '' || text === null ? null : text ?? bare.trim()
}

/** A call as `call:NAME{key:value,…}` between two marks, with a mark of its own around texts. */
function calls (open: string, end: string, quote: string): ToolFormat {
  const writing: Writing = {
    raw: quote,
    quoted: true,
    brackets: (make) => ({
      open: make.marker('{'), comma: make.marker(','), close: make.marker('}'), end: make.marker('}')
    }),
    entry: (make, name, value) => new Sequence(make, [name, make.marker(':'), value])
  }
  return {
    shows: [open, 'call:'],
    opens: [open],
    inner: [end, quote],
    * read (input, out) {
      yield * input.space()
      yield * input.take('call:')
      let name = ''
      const brace = yield * input.until(['{', end], (text) => { name += text })
      if (brace !== '{') return out.content(name)
      out.call(name.trim())
      // What is broken or cut must not look like a call without arguments.
      out.args((yield * readItems(input, quote, 0, '}')) ?? '{')
      yield * skipPast(input, end)
    },
    calls (grammar) {
      const { make } = grammar
      const one = eachTool(grammar, ({ name, fields }) =>
        [make.marker(`call:${name}`), fields(writing), make.marker(end)])
      return repeated(grammar, one, new Sequence(make, [make.marker(open), one]))
    }
  }
}

/** Gemma 4. */
export const gemma = calls('<|tool_call>', '<tool_call|>', '<|"|>')
/** FunctionGemma. */
export const functionGemma = calls('<start_function_call>', '<end_function_call>', '<escape>')
