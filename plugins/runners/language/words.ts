import type { ModelFacts } from '../../staging/service.js'

/** Facts to put into words; `template` is that of a chat, null for none. */
interface Facts {
  /** The task of a model that writes nothing. */
  encoder: 'embeddings' | 'rerank' | null
  family: string, quantization: string | null, nLayers: number, contextLength: number
  template: { hidesTools: boolean } | null
}

const NO_TEMPLATE = 'its files have none, so ChatML is used, which it may not have learned; ' +
  '`svc place MODEL --chat-template FILE` gives one'

/** Description, tasks and what is done with tools. A chat model also completes plain text. */
export function modelWords (
  { encoder, family, quantization, nLayers, contextLength, template }: Facts
): Pick<ModelFacts, 'description' | 'tasks' | 'support'> {
  const kept = quantization === null ? '' : `, ${quantization}`
  const kind = encoder === null ? 'Language' : encoder === 'rerank' ? 'Reranking' : 'Embedding'
  const description = `${kind} model (${family}${kept}), ` +
    `${nLayers} layers, context of ${contextLength} tokens.`
  if (encoder !== null) return { description, tasks: [encoder] }
  const tools = template?.hidesTools === false
    ? 'given to the chat template, which shows them to the model'
    : 'no effect: the chat template does not show them'
  const support = template === null ? { tools, chat_template: NO_TEMPLATE } : { tools }
  return { description, tasks: ['chat', 'completions'], support }
}
