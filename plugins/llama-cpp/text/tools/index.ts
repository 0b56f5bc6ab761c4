/** Every format of tool calls. Another one is a file of this folder, and a row here. */
import { apertus } from './apertus.js'
import { deepseek, deepseekNamed } from './deepseek.js'
import { functionary } from './functionary.js'
import { gemma } from './gemma.js'
import { glm } from './glm.js'
import { harmony } from './harmony.js'
import { deepseekInvoke, deepseekInvoke4, minimaxInvoke } from './invoke.js'
import { command, granite, hermes, llama, minimax, nemotron } from './json-calls.js'
import { kimi, solar } from './marked.js'
import { mistral, mistralNamed } from './mistral.js'
import { lfm } from './python.js'
import { qwenCoder } from './qwen-coder.js'
import type { ToolFormat } from './format.js'

/** By name, in the order in which a template is compared with them: what has more markers comes first. */
const FORMATS = {
  harmony, glm, qwen_coder: qwenCoder, hermes, mistral_named: mistralNamed, mistral, deepseek,
  deepseek_named: deepseekNamed, deepseek_invoke: deepseekInvoke, deepseek_invoke4: deepseekInvoke4,
  minimax_invoke: minimaxInvoke, minimax, kimi, solar, command, nemotron, gemma, apertus, functionary,
  granite, lfm, llama
} as const satisfies Record<string, ToolFormat>

/** The name of a format. */
export type ToolFormatName = keyof typeof FORMATS

export const toolFormats: Readonly<Record<ToolFormatName, ToolFormat>> = FORMATS
/** The names, in the order of comparison. */
export const toolFormatNames = Object.keys(FORMATS) as readonly ToolFormatName[]

/** Special tokens that a text stream has to pass on for the reader of a format. */
export const markersOf = ({ opens, inner = [] }: ToolFormat): string[] => [...opens, ...inner]
