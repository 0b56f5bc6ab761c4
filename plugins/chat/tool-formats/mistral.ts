import type { ToolFormat } from './format.js'

/** `[TOOL_CALLS] [{"name": …, "arguments": …}, …]`: Mistral. */
export const mistral: ToolFormat = {
  template: '[TOOL_CALLS]',
  marker: '[TOOL_CALLS]',
  list: true,
  between: ',;',
  argumentsKey: 'arguments',
  behindMarker: ({ call, spaced, list }, most) => [spaced(list(call, most))]
}
