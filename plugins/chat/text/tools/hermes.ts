import { Sequence } from '../grammar/rules.js'
import { repeated, type ToolFormat } from './format.js'
import { objectRule, readObjects, skipPast } from './json-calls.js'

const [OPEN, END] = ['<tool_call>', '</tool_call>']

/** `<tool_call>{"name": …, "arguments": …}</tool_call>` for each call: Hermes, Qwen, Granite 4, SmolLM3. */
export const hermes: ToolFormat = {
  shows: [OPEN, END, '"name"'],
  opens: [OPEN],
  inner: [END],
  * read (input, out) {
    if (yield * readObjects(input, out)) yield * skipPast(input, END)
    else yield * input.until([END], (text) => { out.content(text) })
  },
  calls (grammar) {
    const { make } = grammar
    const one = new Sequence(make, [make.spaced(objectRule(grammar)), make.spaced(make.marker(END))])
    return repeated(grammar, one, make.spaced(new Sequence(make, [make.marker(OPEN), one])))
  }
}
