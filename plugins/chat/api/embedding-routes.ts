/** Handlers of the routes that answer with vectors, and of the capability. */
import { runTask } from '../../runners/service.js'
import { answerJson, heldBack } from './answer.js'
import { embeddingList, numbersOf, ollamaEmbedded } from './embedding-format.js'
import { embeddingTask } from './embedding-task.js'
import { asRequestError } from './errors.js'
import type { CapabilityCall, FromSchema, RouteRequest } from '../../../kernel/index.js'
import type { Vectors } from './embedding-format.js'
import type { AskedVectors, EmbeddingsBody, ollamaEmbedBody, ollamaEmbeddingsBody } from './embedding-task.js'
import type { ApiParts } from './openai-routes.js'

/** The capability whose places these routes take. */
const EMBEDDINGS = 'embeddings@1.0.0'

/** The vectors of the texts. Throws what `runTask` throws; refusals name the fields of the request. */
async function vectorsOf (
  { runners }: ApiParts, asked: AskedVectors, call: CapabilityCall
): Promise<Vectors> {
  const vectors: Uint8Array[] = []
  let tokens = 0
  try {
    for await (const { payload, media } of runTask(heldBack(runners), asked, call)) {
      if (payload['kind'] === 'done') tokens = (payload['usage'] as { prompt_tokens: number }).prompt_tokens
      else if (media !== undefined) vectors[Number(payload['index'])] = media
    }
  } catch (error) {
    throw asRequestError(error)
  }
  return { vectors, tokens }
}

/** The capability: the answer of POST /v1/embeddings. */
export async function embed (parts: ApiParts, body: EmbeddingsBody, call: CapabilityCall): Promise<object> {
  const asked = embeddingTask(body, parts.limits, parts.aliases)
  return await embeddingList(await vectorsOf(parts, asked, call), asked.modelId, body.encoding_format)
}

/** POST /v1/embeddings. */
export async function embeddings (
  parts: ApiParts, request: RouteRequest, body: EmbeddingsBody
): Promise<void> {
  await answerJson(parts, request, async (call) => await embed(parts, body, call), EMBEDDINGS)
}

/** POST /ollama/api/embed. */
export async function ollamaEmbed (
  parts: ApiParts, request: RouteRequest, body: FromSchema<typeof ollamaEmbedBody>
): Promise<void> {
  const asked = embeddingTask(body, parts.limits, parts.aliases)
  const startedMs = parts.clock.mono()
  await answerJson(parts, request, async (call) => {
    const made = await vectorsOf(parts, asked, call)
    return await ollamaEmbedded(made, asked.modelId, parts.clock.mono() - startedMs)
  }, EMBEDDINGS)
}

/** POST /ollama/api/embeddings: the older route, with one text. */
export async function ollamaEmbeddings (
  parts: ApiParts, request: RouteRequest, { model, prompt }: FromSchema<typeof ollamaEmbeddingsBody>
): Promise<void> {
  const asked = embeddingTask({ model, input: prompt }, parts.limits, parts.aliases)
  await answerJson(parts, request, async (call) => {
    const { vectors: [vector] } = await vectorsOf(parts, asked, call)
    return { embedding: numbersOf(vector ?? new Uint8Array()) }
  }, EMBEDDINGS)
}
