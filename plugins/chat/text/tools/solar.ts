import type { ToolFormat } from './format.js'
import { markedFormat } from './marked.js'

const NAME = '<|tool_call:name|>'

/** `<|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{…}<|tool_call:end|>`: Solar Open. */
export const solar: ToolFormat = markedFormat({
  open: '<|tool_calls|>', end: '<|calls|>', call: '<|tool_call:begin|>', given: '<|tool_call:args|>',
  callEnd: '<|tool_call:end|>', inner: [NAME]
}, {
  before: '[a-z0-9]{10}', after: '', find: (written) => written.slice(written.lastIndexOf(NAME) + NAME.length)
})
