import { Sequence } from '../grammar/rules.js'
import type { Writing } from '../grammar/fields.js'
import type { Rule } from '../grammar/machine.js'
import type { CallGrammar, ToolFormat } from './format.js'
import { eachTool } from './format.js'
import { readObjects } from './json-calls.js'
import { readPythonCalls } from './python.js'

const writing: Writing = {
  python: true,
  brackets: (make) => ({
    open: make.marker('('), comma: make.marker(', '), close: make.marker(')'), end: make.marker(')')
  }),
  entry: (make, name, value) => new Sequence(make, [name, make.marker('='), value])
}

function callsRule (grammar: CallGrammar): Rule {
  const { make, most } = grammar
  const one = eachTool(grammar, ({ name, fields }) => [make.marker(name), fields(writing)])
  return make.array({ elements: [], others: one, min: 1, max: most, needed: 0 })
}

/** `[name(key="value"), …]` as the whole output: Llama 3.2 and 4, by prompts of their own. */
export const pythonic: ToolFormat = {
  shows: ['[', '(', ')]'],
  hints: ['[func_name1(params_name1=params_value1'],
  opens: [],
  bare: '[',
  * read (input, out) { yield * readPythonCalls(input, out) },
  calls: callsRule
}

const [START, END] = ['<|tool_call_start|>', '<|tool_call_end|>']

/** The same between markers: LFM2. */
export const lfm: ToolFormat = {
  shows: [START, END],
  hints: [START, '<|tool_list_start|>', 'List of tools: ['],
  opens: [START],
  inner: [END],
  * read (input, out) {
    if (!(yield * readPythonCalls(input, out))) yield * readObjects(input, out)
    yield * input.space()
    yield * input.take(END)
  },
  calls (grammar) {
    const { make } = grammar
    return new Sequence(make, [make.spaced(callsRule(grammar)), make.spaced(make.marker(END))])
  }
}
