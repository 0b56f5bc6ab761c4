import type { ToolFormat } from './format.js'
import { listRule, readObjects } from './json-calls.js'

/** `<|tool_call|>[{"name": …, "arguments": …}, …]`: Granite 3. */
export const granite: ToolFormat = {
  shows: ['<|tool_call|>', '"name"'],
  opens: ['<|tool_call|>'],
  * read (input, out) { yield * readObjects(input, out) },
  calls: (grammar) => listRule(grammar)
}
