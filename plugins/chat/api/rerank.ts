/** POST /v1/rerank, as Jina's and Cohere's clients ask: how well each document answers a query. */
import { answerJson, runWhole } from './answer.js'
import { EMBEDDINGS } from './embeddings.js'
import { atMost } from './errors.js'
import { long, name, text, whole } from './fields.js'
import { modelOf } from './task.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { Handler } from './answer.js'

const document = {
  type: ['string', 'object'], required: ['text'], maxLength: long.maxLength, properties: { text }
} as const

/** Body of POST /v1/rerank. */
export const rerankBody = {
  type: 'object', required: ['model', 'query', 'documents'],
  properties: {
    model: name, query: { ...text, minLength: 1 },
    documents: {
      type: 'array', minItems: 1, maxItems: long.maxItems, items: document,
      description: 'Texts, or objects with a text.'
    },
    top_n: { ...whole(1), description: 'Only so many of the best; all of them without it.' },
    return_documents: { type: ['boolean', 'null'], description: 'Gives the text of each, too.' }
  }
} as const

/** POST /v1/rerank. */
export const rerank: Handler<typeof rerankBody> = async (parts, request) => {
  const { model, query, documents, top_n: most, return_documents: shown } =
    request.body as FromSchema<typeof rerankBody> & { documents: (string | { text: string })[] }
  atMost('documents', documents.length, parts.limits.max_inputs, 'texts')
  const texts = documents.map((one) => typeof one === 'string' ? one : one.text)
  const asked = {
    modelId: modelOf(parts, model), capability: 'rerank',
    task: { kind: 'rerank', payload: { query, documents: texts } }
  }
  await answerJson(parts, request, async (call) => {
    let scores: number[] = []
    let tokens = 0
    for await (const { payload } of runWhole(parts.runners, asked, call, (chunk) => chunk)) {
      scores = payload['scores'] as number[]
      tokens = payload['tokens'] as number
    }
    const results = scores.map((score, index) => ({
      index, relevance_score: score, ...shown === true ? { document: { text: texts[index] } } : {}
    })).sort((a, b) => b.relevance_score - a.relevance_score).slice(0, most ?? undefined)
    return {
      object: 'list', model: asked.modelId, results, usage: { prompt_tokens: tokens, total_tokens: tokens }
    }
  }, EMBEDDINGS)
}
