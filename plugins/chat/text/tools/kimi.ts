import type { ToolFormat } from './format.js'
import { markedFormat } from './marked.js'

/** `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`: Kimi K2. */
export const kimi: ToolFormat = markedFormat({
  open: '<|tool_calls_section_begin|>', end: '<|tool_calls_section_end|>', call: '<|tool_call_begin|>',
  given: '<|tool_call_argument_begin|>', callEnd: '<|tool_call_end|>'
}, {
  before: 'functions\\.', after: ':[0-9]{1,3}',
  find: (written) => written.trim().replace(/^functions\./, '').replace(/:\d+$/, '')
})
