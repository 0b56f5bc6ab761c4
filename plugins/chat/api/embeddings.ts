/** The embeddings capability, OpenAI's embeddings route, and the rerank route used by Jina and Cohere. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { badField, EngineError, type CapabilityCall, type FromSchema } from '../../../kernel/index.js'
import { idsOf, present } from '../../runners/language/json.js'
import { answerJson, runWhole } from './answer.js'
import { atMost, type Rules } from './errors.js'
import { ignored, longText, name, text, nullableInteger } from './fields.js'
import { modelOf } from './request-to-task.js'
import type { TaskRequest } from '../../runners/service.js'
import type { ApiParts, Handler } from './types.js'

const inputs = { type: ['string', 'array'], ...longText, minItems: 1 } as const
const dimensions = { type: ['integer', 'null'], minimum: 1, maximum: 2 ** 31 } as const

/** Request fields that determine the vectors. */
export const embeddingFields = {
  model: name,
  input: { ...inputs, description: 'A text, token ids, or a list of either.' },
  dimensions: { ...dimensions, description: 'Only so many numbers of each vector, which are made length 1.' },
  encoding_format: { enum: ['float', 'base64', null], description: 'base64: 32-bit floats, little-endian.' }
} as const

/** Body of POST /v1/embeddings. */
export const embeddingsBody = {
  type: 'object', required: ['model', 'input'],
  properties: {
    ...embeddingFields, user: ignored('identifies the end user for abuse checks, which svc does not do'),
    truncate_prompt_tokens: {
      ...nullableInteger(-1), description: 'uses the first tokens of each text, as many; -1: all that fit'
    }
  }
} as const

export type EmbeddingsBody = FromSchema<typeof embeddingsBody>
type Wanted = Pick<EmbeddingsBody, 'model' | 'input' | 'dimensions' | 'truncate_prompt_tokens'>

/** All embeddings and rerank routes count against the concurrency limit of this capability. */
export const EMBEDDINGS = 'embeddings@1.0.0'

export async function embed (parts: ApiParts, body: EmbeddingsBody, call: CapabilityCall): Promise<object> {
  const asked = embeddingTask(body, parts)
  const made = await vectorsOf(parts, asked, call).catch((error: unknown) => { throw withRemedy(error) })
  return await embeddingList(made, asked.modelId, body.encoding_format)
}

/** Adds the remedy to the message, since clients do not show the details of an error. */
function withRemedy (error: unknown): unknown {
  if (!(error instanceof EngineError) || error.reason !== 'context_length_exceeded') return error
  return new EngineError(error.reason,
    `${error.message}; send smaller chunks, or truncate_prompt_tokens: -1`, error.details)
}

export const embeddings: Handler<typeof embeddingsBody> = async (parts, request) => {
  await answerJson(parts, request, async (call) => await embed(parts, request.body, call), EMBEDDINGS)
}

const isInput = (value: unknown): boolean => typeof value === 'string' || (idsOf(value) ?? []).length > 0

/** The inputs as strings or token id lists. Throws `invalid_request` naming the first invalid input. */
function inputsOf (input: Wanted['input']): unknown[] {
  const all: unknown[] = isInput(input) ? [input] : input as unknown[]
  const wrong = all.findIndex((each) => !isInput(each))
  if (wrong >= 0) throw badField(`input.${wrong}`, 'must be a text or a list of token ids')
  return all
}

/** A request as an engine task. Throws `invalid_request` naming the field. */
export function embeddingTask (
  { model, input: given, dimensions, truncate_prompt_tokens: truncate }: Wanted, rules: Rules
): TaskRequest {
  const input = inputsOf(given)
  if (truncate === 0) throw badField('truncate_prompt_tokens', 'is 0; it must be at least 1, or -1')
  atMost('input', input.length, rules.limits.max_inputs, 'texts')
  return {
    modelId: modelOf(rules, model), capability: 'embeddings',
    task: { kind: 'embed', payload: { input, ...present({ dimensions, truncate }) } }
  }
}

/** Vectors in input order, as little-endian 32-bit floats, and the total token count of the inputs. */
export interface Vectors { vectors: readonly Uint8Array[], tokens: number }

/** Computes the vectors of a request. Throws like `runTask`; refusals name request fields. */
export async function vectorsOf (
  parts: ApiParts, asked: TaskRequest, call: CapabilityCall
): Promise<Vectors> {
  const vectors: Uint8Array[] = []
  let tokens = 0
  for await (const { payload, media } of runWhole(parts.runners, asked, call, (chunk) => chunk)) {
    if (payload['kind'] === 'done') tokens = (payload['usage'] as { prompt_tokens: number }).prompt_tokens
    else if (media !== undefined) vectors[Number(payload['index'])] = media
  }
  return { vectors, tokens }
}

/** Decimal digits that distinguish every 32-bit float from its neighbours. */
const DIGITS = 9
/** Bytes to convert before yielding to the event loop: a request may have millions of numbers. */
const TURN_BYTES = 64 * 1024

/** The numbers of a vector, in the fewest digits that parse back to the same 32-bit floats. */
export function numbersOf (vector: Uint8Array): number[] {
  const view = new DataView(vector.buffer, vector.byteOffset, vector.byteLength)
  return Array.from({ length: vector.byteLength / 4 }, (_, i) =>
    Number(view.getFloat32(4 * i, true).toPrecision(DIGITS)))
}

const base64 = (vector: Uint8Array): string => Buffer.from(vector).toString('base64')

/** Converts every vector with `write`, yielding to the event loop in between. */
export async function encodeVectors<T> (
  vectors: readonly Uint8Array[], write: (vector: Uint8Array) => T
): Promise<T[]> {
  const all: T[] = []
  let bytes = 0
  for (const vector of vectors) {
    all.push(write(vector))
    bytes += vector.length
    if (bytes < TURN_BYTES) continue
    bytes = 0
    await nextTurn()
  }
  return all
}

export async function embeddingList (
  { vectors, tokens }: Vectors, model: string, format: unknown
): Promise<object> {
  const embeddings = await encodeVectors<unknown>(vectors, format === 'base64' ? base64 : numbersOf)
  return {
    object: 'list',
    data: embeddings.map((embedding, index) => ({ object: 'embedding', index, embedding })), model,
    usage: { prompt_tokens: tokens, total_tokens: tokens }
  }
}

/** Body of POST /v1/rerank. */
export const rerankBody = {
  type: 'object', required: ['model', 'query', 'documents'],
  properties: {
    model: name, query: { ...text, minLength: 1 },
    documents: {
      type: 'array', minItems: 1, description: 'Texts, or objects with a text.', maxItems: longText.maxItems,
      items: { ...text, type: ['string', 'object'], required: ['text'], properties: { text } }
    },
    top_n: { ...nullableInteger(1), description: 'Number of best results to return; default all.' }
  }
} as const

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
