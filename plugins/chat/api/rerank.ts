/** POST /v1/rerank, as Jina's and Cohere's clients ask: how well each document answers a query. */
import { answerJson, runWhole } from './answer.js'
import { EMBEDDINGS } from './embeddings.js'
import { atMost } from './errors.js'
import { long, name, text, whole } from './fields.js'
import { modelOf } from './task.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { Handler } from './answer.js'

/** Body of POST /v1/rerank. */
export const rerankBody = {
  type: 'object', required: ['model', 'query', 'documents'],
  properties: {
    model: name, query: { ...text, minLength: 1 },
    documents: {
      type: 'array', minItems: 1, maxItems: long.maxItems, description: 'Texts, or objects with a text.',
      items: { type: ['string', 'object'], required: ['text'], maxLength: long.maxLength, properties: { text } }
    },
    top_n: { ...whole(1), description: 'Only so many of the best; all of them without it.' }
  }
} as const

/** POST /v1/rerank. */
export const rerank: Handler<typeof rerankBody> = async (parts, request) => {
  const { model, query, documents: given, top_n: most } =
    request.body as FromSchema<typeof rerankBody> & { documents: (string | { text: string })[] }
  atMost('documents', given.length, parts.limits.max_inputs, 'texts')
  const documents = given.map((one) => typeof one === 'string' ? one : one.text)
  const task = { kind: 'rerank', payload: { query, documents } }
  const asked = { modelId: modelOf(parts, model), capability: 'rerank', task }
  await answerJson(parts, request, async (call) => {
    let made = { scores: [] as number[], tokens: 0 }
    for await (const payload of runWhole(parts.runners, asked, call, (chunk) => chunk.payload)) {
      made = payload as typeof made
    }
    const results = made.scores.map((score, index) => ({ index, relevance_score: score }))
      .sort((a, b) => b.relevance_score - a.relevance_score).slice(0, most ?? undefined)
    const usage = { prompt_tokens: made.tokens, total_tokens: made.tokens }
    return { object: 'list', model: asked.modelId, results, usage }
  }, EMBEDDINGS)
}
