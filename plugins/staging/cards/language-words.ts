/** What cards of language models say, whatever format they are in. */
import type { Found } from './found.js'

/** Facts to put into words; `template` is the chat template, if there is one. */
export interface LanguageFacts {
  encoder: boolean
  family: string
  quantization: string | null
  nLayers: number
  contextLength: number
  template: string | undefined
}

/** Description, tasks and what is done with tools. A chat model also completes plain text. */
export function languageWords (facts: LanguageFacts): Pick<Found, 'description' | 'tasks' | 'support'> {
  const { encoder, family, quantization, nLayers, contextLength, template } = facts
  const kept = quantization === null ? '' : `, ${quantization}`
  const description = `${encoder ? 'Embedding' : 'Language'} model (${family}${kept}), ` +
    `${nLayers} layers, context of ${contextLength} tokens.`
  if (encoder) return { description, tasks: ['embeddings'] }
  if (template === undefined) return { description, tasks: ['completions'] }
  return { description, tasks: ['chat', 'completions'], support: { tools: toolSupport(template) } }
}

const toolSupport = (template: string): string => /\btools\b/.test(template)
  ? 'given to the chat template, which has a place for them'
  : 'no effect: the chat template has no place for them'
