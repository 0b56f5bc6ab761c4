/** Ollama's embedding routes: POST /ollama/api/embed and the older /ollama/api/embeddings. */
import { present } from '../../../runners/language/json.js'
import { answerJson } from '../answer.js'
import { EMBEDDINGS, embeddingTask, numbersOf, vectorsOf, encodeVectors } from '../embeddings.js'
import { loadFor, loadOnly } from './load.js'
import { canonical } from './names.js'
import type { FromSchema, RouteRequest } from '../../../../kernel/index.js'
import type { ApiParts } from '../types.js'
import type { Vectors } from '../embeddings.js'
import type { embedBody, embeddingsBody } from './body.js'

/** A request without input only loads the model. */
export async function ollamaEmbed (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof embedBody }>
): Promise<unknown> {
  const body = request.body as FromSchema<typeof embedBody>
  const model = canonical(parts, body.model)
  const wanted = { ...body, model, options: null }
  if (isEmpty(body.input)) {
    await loadOnly(parts, request, wanted, ['embeddings'], {})
    return ollamaEmbedded({ vectors: [], tokens: 0 }, body.model, 0)
  }
  const { dimensions, input } = body
  const truncate = { truncate_prompt_tokens: body.truncate === false ? null : -1 }
  const asked = embeddingTask(
    { model, input: input as string, ...truncate, ...present({ dimensions }) }, parts)
  await loadFor(parts, request, wanted, ['embeddings'])
  const startedMs = parts.clock.mono()
  return await answerJson(parts, request, async (call) => {
    const made = await vectorsOf(parts, asked, call)
    return await ollamaEmbedded(made, body.model, parts.clock.mono() - startedMs)
  }, EMBEDDINGS)
}

/** POST /ollama/api/embeddings, the older route, accepts one string. */
export async function ollamaEmbeddings (
  parts: ApiParts, request: RouteRequest<{ readonly body: typeof embeddingsBody }>
): Promise<unknown> {
  const body = request.body as FromSchema<typeof embeddingsBody>
  const wanted = { ...body, model: canonical(parts, body.model), options: null }
  if (isEmpty(body.prompt)) {
    await loadOnly(parts, request, wanted, ['embeddings'], {})
    return { embedding: [] }
  }
  const asked = embeddingTask({ model: wanted.model, input: body.prompt, truncate_prompt_tokens: -1 }, parts)
  await loadFor(parts, request, wanted, ['embeddings'])
  return await answerJson(parts, request, async (call) => {
    const { vectors: [vector] } = await vectorsOf(parts, asked, call)
    return { embedding: numbersOf(vector ?? new Uint8Array()) }
  }, EMBEDDINGS)
}

const isEmpty = (input: unknown): input is null | undefined | '' =>
  input == null || input === '' || (Array.isArray(input) && input.length === 0)

export async function ollamaEmbedded (
  { vectors, tokens }: Vectors, model: string, elapsedMs: number
): Promise<object> {
  return {
    model, embeddings: await encodeVectors(vectors, numbersOf), total_duration: Math.round(elapsedMs * 1e6),
    load_duration: 0, prompt_eval_count: tokens
  }
}
