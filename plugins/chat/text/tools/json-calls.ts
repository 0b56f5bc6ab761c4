/** Calls as JSON objects with a name and arguments, which most formats have in common. */
import { Choice } from '../grammar/rules.js'
import { CallReader, OUTSIDE } from '../parse/call-reader.js'
import type { Rule } from '../grammar/machine.js'
import type { Input, Reading } from '../parse/input.js'
import type { CallGrammar, CallSink, CallableTool } from './format.js'

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

/** The rule of one call of one of the tools. */
export function objectRule (
  { make, tools }: CallGrammar, argumentsKey: 'arguments' | 'parameters' = 'arguments'
): Rule {
  const one = ({ name, json }: CallableTool): Rule => {
    const field = (key: string, value: Rule): { rule: Rule, required: true } =>
      ({ rule: make.entry(make.values([key]), value), required: true })
    const elements = [field('name', make.values([name])), field(argumentsKey, json())]
    return make.object({ elements, others: null, min: 0, max: Infinity, needed: 2 })
  }
  return new Choice(make, tools.map(one))
}

/** The rule of a list of calls. */
export const listRule = (grammar: CallGrammar): Rule => {
  const { make, most } = grammar
  return make.spaced(
    make.array({ elements: [], others: objectRule(grammar), min: 1, max: most, needed: 0 }))
}
