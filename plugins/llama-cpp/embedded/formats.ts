/** How models write calls, for grammars. A writing that is missing here is enforced as Hermes'. */
import type { ToolFormatName } from '../text/tools/index.js'

/**
 * `call` has `{{name}}` and `{{arguments}}`; `begin` and `end` stand around all calls, `separator` between
 * them.
 */
export interface ToolCallFormat { call: string, begin?: string, separator?: string, end?: string }

const object = (given = 'arguments'): string => `{"name": "{{name}}", "${given}": {{arguments}}}`
const list = (begin: string, end = ''): ToolCallFormat =>
  ({ begin: `${begin}[`, call: object(), separator: ', ', end: `]${end}` })

/** Hermes, Qwen 2.5 and 3, Granite 4, SmolLM3. */
export const HERMES: ToolCallFormat = {
  call: `<tool_call>\n${object()}\n</tool_call>`, separator: '\n'
}

const FORMATS: Partial<Record<ToolFormatName, ToolCallFormat>> = {
  hermes: HERMES,
  // It writes one call.
  llama: { call: object('parameters') },
  mistral: list('[TOOL_CALLS] '),
  mistral_named: { call: '[TOOL_CALLS]{{name}}[ARGS]{{arguments}}' },
  granite: list('<|tool_call|>'),
  nemotron: list('<TOOLCALL>', '</TOOLCALL>'),
  functionary: { call: '<function={{name}}>{{arguments}}</function>' },
  deepseek_named: {
    begin: '<｜tool▁calls▁begin｜>', end: '<｜tool▁calls▁end｜>',
    call: '<｜tool▁call▁begin｜>{{name}}<｜tool▁sep｜>{{arguments}}<｜tool▁call▁end｜>'
  }
}

/** The writing that a grammar enforces for a model of this format, and the format that reads it. */
export function enforcedFormat (name: ToolFormatName): { reader: ToolFormatName, format: ToolCallFormat } {
  const format = FORMATS[name]
  return format === undefined ? { reader: 'hermes', format: HERMES } : { reader: name, format }
}
