/** Requests for vectors, of OpenAI's and Ollama's APIs, as tasks of the engine. Pure. */
import { atMost, refused } from './errors.js'
import { renamed } from './task.js'
import type { EngineTask, FromSchema } from '../../../kernel/index.js'
import type { Limits } from './errors.js'

const name = { type: 'string', minLength: 1 } as const
const inputs = { type: ['string', 'array'], minItems: 1 } as const
const dimensions = { type: ['integer', 'null'], minimum: 1, maximum: 2 ** 31 } as const

/** Fields of a request for vectors that decide what they are. */
export const embeddingFields = {
  model: name,
  input: { ...inputs, description: 'A text, token ids, or a list of either.' },
  dimensions: { ...dimensions, description: 'Only so many numbers of each vector, which are made length 1.' },
  encoding_format: { enum: ['float', 'base64', null], description: 'base64: 32-bit floats, little-endian.' }
} as const

/** Body of POST /v1/embeddings. Unknown fields are ignored. */
export const embeddingsBody = {
  type: 'object', required: ['model', 'input'], properties: embeddingFields
} as const

/** Body of POST /ollama/api/embed. */
export const ollamaEmbedBody = {
  type: 'object', required: ['model', 'input'], properties: { model: name, input: inputs, dimensions }
} as const

/** Body of POST /ollama/api/embeddings, which takes one text. */
export const ollamaEmbeddingsBody = {
  type: 'object', required: ['model', 'prompt'], properties: { model: name, prompt: name }
} as const

/** A request of OpenAI's route as its schema has let it through. */
export type EmbeddingsBody = FromSchema<typeof embeddingsBody>
type Wanted = Pick<EmbeddingsBody, 'model' | 'input' | 'dimensions'>

/** A request in the engine's words. */
export interface AskedVectors { modelId: string, capability: string, task: EngineTask }

const isText = (value: unknown): boolean => typeof value === 'string'
const isId = (value: unknown): boolean => Number.isSafeInteger(value) && value as number >= 0
const areIds = (value: unknown): boolean => Array.isArray(value) && value.length > 0 && value.every(isId)

/** The texts, each as it is or as token ids. Throws `invalid_request` naming the first that is neither. */
function inputsOf (input: Wanted['input']): unknown[] {
  const all: unknown[] = isText(input) || areIds(input) ? [input] : input as unknown[]
  const wrong = all.findIndex((each) => !isText(each) && !areIds(each))
  if (wrong >= 0) throw refused(`input.${wrong}`, 'must be a text or a list of token ids')
  return all
}

/** Throws `invalid_request` for what is refused, naming the field. */
export function embeddingTask (
  { model, input, dimensions }: Wanted, limits: Limits, aliases: Readonly<Record<string, string>>
): AskedVectors {
  const texts = inputsOf(input)
  atMost('input', texts.length, limits.max_inputs, 'texts')
  return {
    modelId: renamed(aliases, model),
    capability: 'embeddings',
    task: { kind: 'embed', payload: { input: texts, ...dimensions == null ? {} : { dimensions } } }
  }
}
