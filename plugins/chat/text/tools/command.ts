import type { ToolFormat } from './format.js'
import { listBetween } from './json-calls.js'

/**
 * `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": …, "parameters": …}, …]<|END_ACTION|>`: Cohere's
 * Command R7B and A, North.
 */
export const command: ToolFormat = listBetween('<|START_ACTION|>', '<|END_ACTION|>',
  { name: 'tool_name', given: 'parameters', id: 'tool_call_id' })
