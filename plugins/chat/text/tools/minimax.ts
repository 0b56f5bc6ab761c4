import { Sequence } from '../grammar/rules.js'
import { repeated, type ToolFormat } from './format.js'
import { objectRule, objectsBetween } from './json-calls.js'

const END = '</tool_calls>'

/** `<tool_calls>` around objects `{"name": …, "arguments": …}`, each in a line of its own: MiniMax M1. */
export const minimax: ToolFormat = objectsBetween('<tool_calls>', END, (grammar) => {
  const { make } = grammar
  const one = make.spaced(objectRule(grammar))
  return new Sequence(make, [repeated(grammar, one, one), make.spaced(make.marker(END))])
})
