/** Every format of tool calls. Another one is a file of this folder, and a row here. */
import { apertus } from './apertus.js'
import { command } from './command.js'
import { deepseek, deepseekNamed } from './deepseek.js'
import { functionary } from './functionary.js'
import { functionGemma, gemma } from './gemma.js'
import { glm } from './glm.js'
import { granite } from './granite.js'
import { harmony } from './harmony.js'
import { hermes } from './hermes.js'
import { deepseekInvoke, deepseekInvoke4, minimaxInvoke } from './invoke.js'
import { kimi } from './kimi.js'
import { llama } from './llama.js'
import { minimax } from './minimax.js'
import { mistral, mistralNamed } from './mistral.js'
import { nemotron } from './nemotron.js'
import { phi } from './phi.js'
import { lfm, pythonic } from './pythonic.js'
import { qwenCoder } from './qwen-coder.js'
import { solar } from './solar.js'
import type { ToolFormat } from './format.js'

/** By name, in the order in which a template is compared with them: what has more markers comes first. */
const FORMATS = {
  harmony, glm, qwen_coder: qwenCoder, hermes, mistral_named: mistralNamed, mistral, deepseek,
  deepseek_named: deepseekNamed, deepseek_invoke: deepseekInvoke, deepseek_invoke4: deepseekInvoke4,
  minimax_invoke: minimaxInvoke, minimax, kimi, solar, command, nemotron, gemma,
  function_gemma: functionGemma, apertus, functionary, phi, granite, lfm, llama, pythonic
} as const satisfies Record<string, ToolFormat>

/** The name of a format, as an engine tells it. */
export type ToolFormatName = keyof typeof FORMATS

export const toolFormats: Readonly<Record<ToolFormatName, ToolFormat>> = FORMATS
/** The names, in the order of comparison. */
export const toolFormatNames = Object.keys(FORMATS) as readonly ToolFormatName[]

/** Special tokens that a text stream has to pass on for the reader of a format. */
export const markersOf = ({ opens, inner = [] }: ToolFormat): string[] => [...opens, ...inner]
