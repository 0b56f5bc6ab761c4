/** All tool call formats. To support a new format, add a reader to a file of this folder and a row here. */
import { command, granite, hermes, llama, mistral, mistralNamed, nemotron } from './json-calls.js'
import type { ToolFormat } from './format.js'
import { harmony } from './harmony.js'
import { gemma, lfm } from './literal-calls.js'
import { glm, qwenCoder } from './tagged-calls.js'

/** Formats in the order of detection, those with more markers first. */
const FORMATS = {
  harmony, glm, qwen_coder: qwenCoder, hermes, mistral_named: mistralNamed, mistral,
  command, nemotron, gemma, granite, lfm, llama
} as const satisfies Record<string, ToolFormat>

export type ToolFormatName = keyof typeof FORMATS

export const toolFormats: Readonly<Record<ToolFormatName, ToolFormat>> = FORMATS
export const toolFormatNames = Object.keys(FORMATS) as readonly ToolFormatName[]

/** Special tokens that the text stream must pass on for a format. */
export const markersOf = ({ opens, inner = [] }: ToolFormat): string[] => [...opens, ...inner]
