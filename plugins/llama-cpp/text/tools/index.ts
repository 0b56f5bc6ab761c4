/** All tool call formats. To support a new format, add a file to this folder and a row here. */
import { apertus } from './apertus.js'
import { deepseek } from './deepseek.js'
import { gemma } from './gemma.js'
import { glm } from './glm.js'
import { harmony } from './harmony.js'
import { command, granite, hermes, llama, nemotron } from './json-calls.js'
import { mistral, mistralNamed } from './mistral.js'
import { lfm } from './python.js'
import { qwenCoder } from './qwen-coder.js'
import type { ToolFormat } from './format.js'

/** Formats in the order of detection, those with more markers first. */
const FORMATS = {
  harmony, glm, qwen_coder: qwenCoder, hermes, mistral_named: mistralNamed, mistral, deepseek,
  command, nemotron, gemma, apertus, granite, lfm, llama
} as const satisfies Record<string, ToolFormat>

export type ToolFormatName = keyof typeof FORMATS

export const toolFormats: Readonly<Record<ToolFormatName, ToolFormat>> = FORMATS
export const toolFormatNames = Object.keys(FORMATS) as readonly ToolFormatName[]

/** Special tokens that the text stream must pass on for a format. */
export const markersOf = ({ opens, inner = [] }: ToolFormat): string[] => [...opens, ...inner]
