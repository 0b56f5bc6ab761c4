import { Sequence } from '../grammar/rules.js'
import { repeated, type ToolFormat } from './format.js'
import { objectRule, objectsBetween } from './json-calls.js'

const [OPEN, END] = ['<tool_call>', '</tool_call>']

/** `<tool_call>{"name": …, "arguments": …}</tool_call>` for each call: Hermes, Qwen, Granite 4, SmolLM3. */
export const hermes: ToolFormat = objectsBetween(OPEN, END, (grammar) => {
  const { make } = grammar
  const one = new Sequence(make, [make.spaced(objectRule(grammar)), make.spaced(make.marker(END))])
  return repeated(grammar, one, make.spaced(new Sequence(make, [make.marker(OPEN), one])))
})
