import type { ToolFormat } from './format.js'

/** `<tool_call>{"name": …, "arguments": …}</tool_call>` for each call: Hermes, Qwen. */
export const hermes: ToolFormat = {
  template: '<tool_call>',
  marker: '<tool_call>',
  end: '</tool_call>',
  between: '',
  argumentsKey: 'arguments',
  behindMarker ({ call, literal, spaced, sequence, repeat }, most) {
    const end = spaced(literal('</tool_call>'))
    if (most === 1) return [spaced(call), end]
    const again = sequence([literal('<tool_call>'), spaced(call), end])
    return [spaced(call), repeat(end, spaced(again), most)]
  }
}
