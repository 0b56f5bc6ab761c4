import { Sequence } from '../grammar/rules.js'
import type { ToolFormat } from './format.js'
import { listRule, readObjects } from './json-calls.js'

const [OPEN, END, WORD] = ['<|tool_call|>', '<|/tool_call|>', 'functools[']

/**
 * `<|tool_call|>[{"name": …, "arguments": …}, …]<|/tool_call|>`: Phi-4-mini. It also writes one object, and
 * `functools[…]`.
 */
export const phi: ToolFormat = {
  shows: [OPEN, END],
  hints: [END, '<|/tool|>'],
  opens: [OPEN, WORD],
  inner: [END],
  * read (input, out, opened) {
    if (opened === WORD) input.put('[')
    if (!(yield * readObjects(input, out))) return
    yield * input.space()
    yield * input.take(END)
  },
  calls (grammar) {
    const { make } = grammar
    return new Sequence(make, [listRule(grammar), make.spaced(make.marker(END))])
  }
}
