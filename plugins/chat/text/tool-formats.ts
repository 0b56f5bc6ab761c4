/** How models write tool calls: what an output is read by, and kept to. Another one is a row of `FORMATS`. */

/** A format. Calls are JSON objects with a name and arguments. */
export interface ToolFormat {
  /** Text in a chat template that tells this format; '' is in every template. */
  template: string
  /** Begins the calls in an output. */
  marker: string
  /** Ends each call, and the next one begins with the marker. Absent: a call ends with its JSON object. */
  end?: string
  /** Calls stand in a JSON list. */
  list?: true
  /** A call may also begin an output without the marker, and does so where one is enforced. */
  bare?: true
  /** Characters that may stand between two calls of one marker. */
  between: string
  /** The key of the arguments. */
  argumentsKey: 'arguments' | 'parameters'
}

/** By name, in the order in which a template is looked at; the last one fits every template. */
const FORMATS = {
  /** `<tool_call>{"name": …, "arguments": …}</tool_call>` for each call: Hermes, Qwen. */
  hermes: {
    template: '<tool_call>', marker: '<tool_call>', end: '</tool_call>', between: '',
    argumentsKey: 'arguments'
  },
  /** `[TOOL_CALLS] [{"name": …, "arguments": …}, …]`: Mistral. */
  mistral: {
    template: '[TOOL_CALLS]', marker: '[TOOL_CALLS]', list: true, between: ',;', argumentsKey: 'arguments'
  },
  /** `{"name": …, "parameters": …}` as the whole output, or after `<|python_tag|>`: Llama 3. */
  llama: { template: '', marker: '<|python_tag|>', bare: true, between: ';', argumentsKey: 'parameters' }
} as const satisfies Record<string, ToolFormat>

/** The name of a format, as an engine tells it. */
export type ToolFormatName = keyof typeof FORMATS

/** Every format. */
export const toolFormats: Readonly<Record<ToolFormatName, ToolFormat>> = FORMATS

/** How templates write tool calls. */
export function toolFormatOf (templates: string): ToolFormatName {
  const names = Object.keys(FORMATS) as ToolFormatName[]
  return names.find((name) => templates.includes(toolFormats[name].template))!
}
