/** Tool call formats for grammars. Models with any other format are constrained to the Hermes format. */
import type { ToolFormatName } from '../text/tools/index.js'
import type { ChatMessage } from '../../runners/language/chunks.js'
import { fieldsOf, listOf, textOf } from '../../runners/language/json.js'

/**
 * `call` has the placeholders `{{name}}` and `{{arguments}}`; `begin` and `end` enclose the list of calls,
 * and `separator` separates them.
 */
export interface ToolCallFormat { call: string, begin?: string, separator?: string, end?: string }

const object = (given = 'arguments'): string => `{"name": "{{name}}", "${given}": {{arguments}}}`
const list = (begin: string, end = ''): ToolCallFormat =>
  ({ begin: `${begin}[`, call: object(), separator: ', ', end: `]${end}` })

/** The tool call format of Hermes, Qwen 2.5 and 3, Granite 4 and SmolLM3. */
export const HERMES: ToolCallFormat = { call: `<tool_call>\n${object()}\n</tool_call>`, separator: '\n' }

const FORMATS: Partial<Record<ToolFormatName, ToolCallFormat>> = {
  hermes: HERMES,
  // Llama's format allows only one call.
  llama: { call: object('parameters') },
  mistral: list('[TOOL_CALLS] '),
  mistral_named: { call: '[TOOL_CALLS]{{name}}[ARGS]{{arguments}}' },
  granite: list('<|tool_call|>'),
  nemotron: list('<TOOLCALL>', '</TOOLCALL>')
}

/** The tool call format that the grammar enforces, and the name of the parser for the answer. */
export function enforcedFormat (name: ToolFormatName): { reader: ToolFormatName, format: ToolCallFormat } {
  const format = FORMATS[name]
  return format === undefined ? { reader: 'hermes', format: HERMES } : { reader: name, format }
}

const INSTRUCTIONS = (tools: readonly unknown[]): string => [
  'You may call these functions to answer. Each is a JSON object with its name, description and parameters:',
  ...tools.map((tool) => JSON.stringify(fieldsOf(tool)['function'] ?? tool)),
  'To call one, write nothing but:',
  HERMES.call.replace('{{name}}', 'NAME').replace('{{arguments}}', '{"PARAMETER": VALUE}')
].join('\n')

/** Merges the system message into the first user message, like llama-server. */
export function withoutSystem (messages: readonly ChatMessage[]): ChatMessage[] {
  const [first, second, ...rest] = messages
  if (first?.role !== 'system' || second?.role !== 'user') return [...messages]
  return [{ ...second, content: `${textOf(first.content)}\n\n${textOf(second.content)}` }, ...rest]
}

/** Writes tools, calls and results into the messages as text, for templates without tool support. */
export function toHermesFormat (messages: readonly ChatMessage[], tools: readonly unknown[]): ChatMessage[] {
  const told = messages.map(({ tool_calls: calls, tool_call_id: _, ...message }): ChatMessage => {
    if (message.role === 'tool') {
      return { role: 'user', content: `<tool_response>\n${textOf(message.content)}\n</tool_response>` }
    }
    const written = listOf(calls).map((call) => {
      const { name, arguments: given } = fieldsOf(call['function'])
      return HERMES.call.replace('{{name}}', () => textOf(name))
        .replace('{{arguments}}', () => typeof given === 'string' ? given : JSON.stringify(given ?? {}))
    })
    const { content } = message
    if (Array.isArray(content)) return message
    const parts = [textOf(content), ...written].filter((text) => text !== '')
    return { ...message, content: parts.join('\n') }
  })
  if (tools.length === 0) return told
  const [first, ...rest] = told
  return first?.role === 'system' && typeof first.content === 'string'
    ? [{ ...first, content: `${first.content}\n\n${INSTRUCTIONS(tools)}` }, ...rest]
    : [{ role: 'system', content: INSTRUCTIONS(tools) }, ...told]
}
