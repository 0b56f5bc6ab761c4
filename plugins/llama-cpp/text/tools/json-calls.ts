/** Reads calls that are JSON objects with name and arguments, as in most formats. */
import { parsed } from '../../../runners/language/json.js'
import type { Input, Reading } from '../parse/input.js'
import { NAME, type CallSink, type ToolFormat } from './format.js'

const ARGUMENT_KEYS: readonly unknown[] = ['arguments', 'parameters']
const NAME_KEYS: readonly unknown[] = ['name', 'tool_name']
/** Keys that may occur in a tool call; an object with another key before name and arguments is not a call. */
const CALL_KEYS = ['type', 'id', 'tool_call_id', 'index', 'function', ...NAME_KEYS, ...ARGUMENT_KEYS]
/** Characters that JSON allows outside strings; any other character ends a broken object. */
const OUTSIDE = /[\s{}[\]:,"\w+.-]/

/**
 * Passes on a JSON object or list character by character, or the rest of one if `depth` is 1. Stops before a
 * character that JSON does not allow.
 */
function * readNested (input: Input, give: (c: string) => void, depth = 0): Reading<void> {
  let inText = false
  for (let escaped = false; ;) {
    const c = yield * input.peek()
    if (c === '' || (!inText && !OUTSIDE.test(c))) return
    yield * input.next()
    give(c)
    if (inText) {
      if (!escaped && c === '"') inText = false
      escaped = !escaped && c === '\\'
    } else if (c === '"') inText = true
    else if (c === '{' || c === '[') depth++
    else if ((c === '}' || c === ']') && --depth === 0) return
  }
}

/** Reads a JSON string or word as JSON text; '' if none begins here. */
function * readPart (input: Input): Reading<string> {
  yield * input.space()
  if ((yield * input.peek()) !== '"') return yield * input.run(/[\w+.-]/)
  let text = yield * input.next()
  for (let escaped = false; ;) {
    const c = yield * input.next()
    text += c
    if (c === '' || (c === '"' && !escaped)) return text
    escaped = c === '\\' && !escaped
  }
}

/** Parses a JSON string; null for any other JSON value. */
function stringIn (json: string): string | null {
  const value = parsed(json)
  return typeof value === 'string' ? value : null
}

/**
 * Reads a call `{"name": …, "arguments": {…}}`, which may also be the value of a key `function`; ignores
 * other keys. Returns false and consumes no text if the text is not a call.
 */
function * readObject (input: Input, out: CallSink): Reading<boolean> {
  input.mark()
  /** `held` is the text of arguments that precede the name; null until arguments begin. */
  const call = { name: null as string | null, held: null as string | null, begun: false }
  const give = (text: string): void => {
    call.held = (call.held ?? '') + text
    if (call.name === null) return
    if (!call.begun) {
      input.keep()
      out.call(call.name)
    }
    call.begun = true
    out.args(call.held)
    call.held = ''
  }
  const readFields = function * (isInner: boolean): Reading<boolean> {
    if (!(yield * input.take('{'))) return false
    while (!call.begun) {
      yield * input.run(/[\s,]/)
      if (yield * input.take('}')) return true
      const key = parsed(yield * readPart(input))
      yield * input.space()
      if (!CALL_KEYS.includes(key) || !(yield * input.take(':'))) return false
      yield * input.space()
      const c = yield * input.peek()
      if (key === 'function' && c === '{' && !isInner) {
        if (!(yield * readFields(true))) return false
      } else if (ARGUMENT_KEYS.includes(key) && call.held === null && (c === '{' || c === '[')) {
        give('')
        yield * readNested(input, give)
      } else {
        const part = yield * readPart(input)
        if (NAME_KEYS.includes(key)) call.name ??= stringIn(part)
        // The arguments may also be null, or a string that contains JSON.
        else if (ARGUMENT_KEYS.includes(key) && part !== '') {
          call.held ??= stringIn(part) ?? (part === 'null' ? '{}' : part)
        }
        if (call.held !== null) give('')
      }
    }
    yield * readNested(input, () => {}, 1)
    return true
  }
  yield * readFields(false)
  if (!call.begun) input.back()
  return call.begun
}

/** Reads one call or more, in a list or not; returns false and consumes no text if there is none. */
export function * readObjects (input: Input, out: CallSink): Reading<boolean> {
  let before = yield * input.space()
  const list = yield * input.take('[')
  if (list) before += `[${yield * input.space()}`
  if (!(yield * readObject(input, out))) {
    input.put(before)
    return false
  }
  for (;;) {
    yield * input.run(/[,;\s]/)
    if ((yield * input.peek()) !== '{' || !(yield * readObject(input, out))) break
  }
  if (list) yield * input.take(']')
  return true
}

/** Reads the JSON object of a call's arguments, or `{}` if none begins here. */
export function * readArguments (input: Input, out: CallSink): Reading<void> {
  yield * input.space()
  if ((yield * input.peek()) !== '{') return out.args('{}')
  yield * readNested(input, (c) => { out.args(c) })
}

/** Consumes the end marker of a call, and drops the text before it. */
export function * skipPast (input: Input, marker: string): Reading<void> {
  yield * input.until([marker], () => {})
}

const objectsBetween = (open: string, end: string, nameKey = 'name'): ToolFormat => ({
  shows: [open, end, `"${nameKey}"`],
  opens: [open],
  inner: [end],
  * read (input, out) {
    if (yield * readObjects(input, out)) yield * skipPast(input, end)
    else yield * input.until([end], (text) => { out.content(text) })
  }
})

/** `<tool_call>{"name": …, "arguments": …}</tool_call>` for each call: Hermes, Qwen, Granite 4, SmolLM3. */
export const hermes = objectsBetween('<tool_call>', '</tool_call>')
/** Nemotron Nano's format: `<TOOLCALL>[{"name": …, "arguments": …}, …]</TOOLCALL>`. */
export const nemotron = objectsBetween('<TOOLCALL>', '</TOOLCALL>')
/**
 * `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": …, "parameters": …}, …]<|END_ACTION|>`: Cohere's
 * Command R7B and A, North.
 */
export const command = objectsBetween('<|START_ACTION|>', '<|END_ACTION|>', 'tool_name')

/** Granite 3's format: `<|tool_call|>[{"name": …, "arguments": …}, …]`. */
export const granite: ToolFormat = {
  shows: ['<|tool_call|>', '"name"'],
  opens: ['<|tool_call|>'],
  * read (input, out) { yield * readObjects(input, out) }
}

/** Llama 3's format: `{"name": …, "parameters": …}` as the whole output or after `<|python_tag|>`. */
export const llama: ToolFormat = {
  shows: ['"name"', '"parameters"'],
  hints: ['"parameters": dictionary of argument name', '<|python_tag|>'],
  opens: ['<|python_tag|>'],
  bare: '{',
  * read (input, out) { yield * readObjects(input, out) }
}

const [TOOL_CALLS, ID, ARGUMENTS] = ['[TOOL_CALLS]', '[CALL_ID]', '[ARGS]']

/** Reads both Mistral formats, because Mistral models mix them. */
function * readMistral (input: Input, out: CallSink): Reading<void> {
  const space = yield * input.space()
  if ('[{'.includes(yield * input.peek())) {
    yield * readObjects(input, out)
    return
  }
  const name = yield * input.run(NAME)
  let given = name
  if (yield * input.take(ID)) given += ID + (yield * input.run(/\w/))
  const marked = yield * input.take(ARGUMENTS)
  if (name !== '' && (marked || (yield * input.peek()) === '{')) {
    out.call(name)
    yield * readArguments(input, out)
  } else input.put(space + given + (marked ? ARGUMENTS : ''))
}

const ofMistral = { opens: [TOOL_CALLS], inner: [ID, ARGUMENTS], read: readMistral }

/** Format of Mistral models up to Nemo: `[TOOL_CALLS] [{"name": …, "arguments": …}, …]`. */
export const mistral: ToolFormat = { ...ofMistral, shows: [TOOL_CALLS, '"name"'] }
/**
 * `[TOOL_CALLS]name[ARGS]{…}` for each call, in some models with `[CALL_ID]` and an id: Mistral since 2025.
 */
export const mistralNamed: ToolFormat = { ...ofMistral, shows: [TOOL_CALLS, ARGUMENTS] }
