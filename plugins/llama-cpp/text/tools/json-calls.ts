/** Reads calls that are JSON objects with name and arguments, as in most formats. */
import { CallReader, OUTSIDE } from '../parse/call-reader.js'
import type { Input, Reading } from '../parse/input.js'
import type { CallSink, ToolFormat } from './format.js'

/** Reads one call; returns false and consumes no text if the text is not a call. */
function * readObject (input: Input, out: CallSink): Reading<boolean> {
  const reader = new CallReader()
  while (reader.state === 'open') {
    const c = yield * input.next()
    if (c === '') break
    const delta = reader.push(c)
    if (delta?.name !== undefined) out.call(delta.name)
    if (delta?.arguments !== undefined) out.args(delta.arguments)
  }
  if (reader.certain) {
    input.put(reader.left)
    return true
  }
  input.put(reader.text)
  return false
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
  let depth = 0
  let inText = false
  for (let escaped = false; ;) {
    const c = yield * input.peek()
    if (c === '' || (!inText && !OUTSIDE.test(c))) return
    yield * input.next()
    out.args(c)
    if (inText) {
      if (!escaped && c === '"') inText = false
      escaped = !escaped && c === '\\'
    } else if (c === '"') inText = true
    else if (c === '{' || c === '[') depth++
    else if ((c === '}' || c === ']') && --depth === 0) return
  }
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
