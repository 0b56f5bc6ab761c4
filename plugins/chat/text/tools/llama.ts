import type { ToolFormat } from './format.js'
import { objectRule, readObjects } from './json-calls.js'

/** `{"name": …, "parameters": …}` as the whole output, or after `<|python_tag|>`: Llama 3. */
export const llama: ToolFormat = {
  shows: ['"name"', '"parameters"'],
  hints: ['"parameters": dictionary of argument name', '<|python_tag|>'],
  opens: ['<|python_tag|>'],
  bare: '{',
  * read (input, out) { yield * readObjects(input, out) },
  calls: (grammar) => objectRule(grammar, { name: 'name', given: 'parameters' })
}
