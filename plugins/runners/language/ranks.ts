/** Models in GGUF files that only read: vectors of texts, and ranks of documents. Pure. */
import { invalid } from './refusals.js'
import type { EngineChunk, ModelCard } from '../../../kernel/api/engine.js'

/** Whether a model writes nothing, and whether it ranks documents then. */
export function readsOnly ({ tasks }: ModelCard): { embeds: boolean, ranks: boolean } {
  const ranks = tasks.includes('rerank')
  return { ranks, embeds: ranks || tasks.includes('embeddings') }
}

/** The payload of a task `rerank`. @throws EngineError invalid_request */
export function readRank (
  { query, documents }: Readonly<Record<string, unknown>>
): { query: string, documents: string[] } {
  const fits = Array.isArray(documents) && documents.every((one) => typeof one === 'string')
  if (typeof query === 'string' && fits) return { query, documents }
  throw invalid('rerank takes a query and documents, which are texts', 'documents')
}

/** Families whose last layer gives a probability; that of all others gives its logit. */
const PROBABILITY = /^qwen3(vl)?$/

/** The answer to a task `rerank`: a probability for each document. */
export function scoresChunk ({ family }: ModelCard, raw: readonly number[], tokens: number): EngineChunk {
  const scores = PROBABILITY.test(family) ? [...raw] : raw.map((value) => 1 / (1 + Math.exp(-value)))
  return { payload: { scores, tokens } }
}
