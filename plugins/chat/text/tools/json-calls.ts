/** Calls as JSON objects with a name and arguments, which most formats have in common. */
import { Choice, Sequence } from '../grammar/rules.js'
import { CallReader, OUTSIDE } from '../parse/call-reader.js'
import type { Rule } from '../grammar/machine.js'
import type { Input, Reading } from '../parse/input.js'
import type { CallGrammar, CallSink, CallableTool, ToolFormat } from './format.js'

/** Reads one object; false where it is no call: the text is not taken then. */
export function * readObject (input: Input, out: CallSink): Reading<boolean> {
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

/**
 * Reads objects one after the other, in a list or not. False where there was none: the text is not taken
 * then.
 */
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

/** Reads the JSON object of a call's arguments; none where another character comes. */
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

/** Takes the end marker of a call, and drops what is in front of it. */
export function * skipPast (input: Input, marker: string): Reading<void> {
  yield * input.until([marker], () => {})
}

/** The keys of an object that is a call; `id` may come first. */
export interface CallKeys { name: string, given: string, id?: string }
const KEYS: CallKeys = { name: 'name', given: 'arguments' }

export function objectRule ({ make, tools }: CallGrammar, keys: CallKeys = KEYS): Rule {
  const field = (key: string, value: Rule, required = true): { rule: Rule, required: boolean } =>
    ({ rule: make.entry(make.values([key]), value), required })
  const { id, name: nameKey, given } = keys
  const first = id === undefined ? [] : [field(id, make.pattern('"[0-9]{1,3}"'), false)]
  const one = ({ name, json }: CallableTool): Rule => {
    const elements = [...first, field(nameKey, make.values([name])), field(given, json())]
    return make.object({ elements, others: null, min: 0, max: Infinity, needed: elements.length })
  }
  return new Choice(make, tools.map(one))
}

export const listRule = (grammar: CallGrammar, keys: CallKeys = KEYS): Rule => {
  const { make, most } = grammar
  return make.spaced(
    make.array({ elements: [], others: objectRule(grammar, keys), min: 1, max: most, needed: 0 }))
}

/** A format of objects between two markers; `calls`: the rule of what follows the first of them. */
export const objectsBetween = (
  open: string, end: string, calls: ToolFormat['calls'], keys: CallKeys = KEYS
): ToolFormat => ({
  shows: [open, end, `"${keys.name}"`],
  opens: [open],
  inner: [end],
  * read (input, out) {
    if (yield * readObjects(input, out)) yield * skipPast(input, end)
    else yield * input.until([end], (text) => { out.content(text) })
  },
  calls
})

/** A format of one list of objects between two markers. */
export const listBetween = (open: string, end: string, keys: CallKeys = KEYS): ToolFormat =>
  objectsBetween(open, end, (grammar) => {
    const { make } = grammar
    return new Sequence(make, [listRule(grammar, keys), make.spaced(make.marker(end))])
  }, keys)
