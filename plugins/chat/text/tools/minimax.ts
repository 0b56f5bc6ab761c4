import { Sequence } from '../grammar/rules.js'
import { repeated, type ToolFormat } from './format.js'
import { objectRule, readObjects, skipPast } from './json-calls.js'

const [OPEN, END] = ['<tool_calls>', '</tool_calls>']

/** `<tool_calls>` around objects `{"name": …, "arguments": …}`, each in a line of its own: MiniMax M1. */
export const minimax: ToolFormat = {
  shows: [OPEN, END, '"name"'],
  opens: [OPEN],
  inner: [END],
  * read (input, out) {
    if (yield * readObjects(input, out)) yield * skipPast(input, END)
    else yield * input.until([END], (text) => { out.content(text) })
  },
  calls (grammar) {
    const { make } = grammar
    const one = make.spaced(objectRule(grammar))
    return new Sequence(make, [repeated(grammar, one, one), make.spaced(make.marker(END))])
  }
}
