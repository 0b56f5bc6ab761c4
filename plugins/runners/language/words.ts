import type { ModelFacts } from '../../staging/service.js'

/** Facts for the description of a model; `template` is its chat template, null if it has none. */
interface Facts {
  encoder: 'embeddings' | 'rerank' | null
  family: string, quantization: string | null, nLayers: number, contextLength: number
  template: { hidesTools: boolean } | null
}

const NO_TEMPLATE = 'its files have none, so ChatML is used, which the model may not support; ' +
  '`svc place MODEL --chat-template FILE` sets one'

/** The model's description, tasks and tool support. A chat model also completes plain text. */
export function modelWords (
  { encoder, family, quantization, nLayers, contextLength, template }: Facts
): Pick<ModelFacts, 'description' | 'tasks' | 'support'> {
  const suffix = quantization === null ? '' : `, ${quantization}`
  const kind = encoder === null ? 'Language' : encoder === 'rerank' ? 'Reranking' : 'Embedding'
  const description = `${kind} model (${family}${suffix}), ` +
    `${nLayers} layers, context of ${contextLength} tokens.`
  if (encoder !== null) return { description, tasks: [encoder] }
  const tools = template?.hidesTools === false
    ? 'passed to the chat template, which shows them to the model'
    : 'no effect: the chat template does not show them'
  const support = template === null ? { tools, chat_template: NO_TEMPLATE } : { tools }
  return { description, tasks: ['chat', 'completions'], support }
}
