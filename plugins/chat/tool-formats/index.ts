/** The formats of tool calls. Another one is a file beside this, and a row here. */
import { hermes } from './hermes.js'
import { llama } from './llama.js'
import { mistral } from './mistral.js'
import type { ToolFormat } from './format.js'

export type { CallRules, ToolFormat } from './format.js'

/** By name, in the order in which a template is looked at; the last one fits every template. */
const FORMATS = { hermes, mistral, llama } as const

/** The name of a format, as an engine tells it. */
export type ToolFormatName = keyof typeof FORMATS

/** Every format. */
export const toolFormats: Readonly<Record<ToolFormatName, ToolFormat>> = FORMATS

/** How templates write tool calls. */
export function toolFormatOf (templates: string): ToolFormatName {
  const names = Object.keys(FORMATS) as ToolFormatName[]
  return names.find((name) => templates.includes(toolFormats[name].template))!
}
