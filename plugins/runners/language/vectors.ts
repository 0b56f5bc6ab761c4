/** Requests and answers for the tasks `embed` (vectors for texts) and `rerank` (document scores). Pure. */
import { invalid } from './refusals.js'
import type { EngineChunk, ModelCard } from '../../../kernel/api/engine.js'

export interface VectorShape {
  /** Length to which a vector is truncated; undefined for the full length. */
  dimensions: number | undefined
  /** True to scale the vector to length 1. */
  normalize: boolean
}

/** The first `dimensions` numbers of a vector, scaled to length 1; a zero vector is not scaled. */
export function normalised (vector: Float32Array, dimensions = vector.length): Float32Array {
  const first = vector.subarray(0, dimensions)
  const norm = Math.sqrt(first.reduce((sum, value) => sum + value * value, 0))
  return norm === 0 ? Float32Array.from(first) : first.map((value) => value / norm)
}

/**
 * Reads the payload of an `embed` task; the caller still checks each input. `input` is a string, token ids,
 * or a list of either. `truncate` limits the tokens per input; -1 for as many as the model accepts.
 * @throws EngineError invalid_request
 */
export function readEmbed (
  { input, dimensions, normalize, truncate }: Readonly<Record<string, unknown>>
): { inputs: unknown[], shape: VectorShape, truncate: number | undefined } {
  const inputs: unknown[] = Array.isArray(input) && typeof input[0] !== 'number' ? input : [input]
  if (inputs.length === 0) throw invalid('input is empty: at least one text is required', 'input')
  if (dimensions != null && !(Number.isInteger(dimensions) && Number(dimensions) > 0)) {
    const given = JSON.stringify(dimensions)
    throw invalid(`dimensions is ${given}: it must be a whole number of at least 1`, 'dimensions')
  }
  const size = dimensions == null ? undefined : Number(dimensions)
  const most = truncate == null ? undefined : Number(truncate)
  return {
    inputs, shape: { dimensions: size, normalize: normalize !== false },
    truncate: most === -1 ? Infinity : most
  }
}

/**
 * The first `most` token ids of an input. The model's closing token stays the last one; `empty` has the ids
 * of the empty string.
 */
export function truncated (ids: number[], most: number, empty: readonly number[]): number[] {
  if (ids.length <= most) return ids
  const closing = most > 1 && empty.length > 0 && ids.at(-1) === empty.at(-1) ? ids.slice(-1) : []
  return [...ids.slice(0, most - closing.length), ...closing]
}

/** The chunk for one text. @throws EngineError invalid_request if its vector has fewer dimensions */
export function vectorChunk (
  index: number, vector: Float32Array, { dimensions, normalize }: VectorShape
): EngineChunk {
  if (dimensions !== undefined && dimensions > vector.length) {
    throw invalid(`dimensions is ${dimensions}, but vectors of this model have ${vector.length}`,
      'dimensions')
  }
  const numbers = normalize ? normalised(vector, dimensions) : vector.slice(0, dimensions)
  const media = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength)
  return { payload: { kind: 'embedding', index, dimensions: numbers.length }, media }
}

/** Model families whose last layer returns a probability; all others return a logit. */
const PROBABILITY = /^qwen3(vl)?$/

export function scoresChunk ({ family }: ModelCard, raw: readonly number[], tokens: number): EngineChunk {
  const scores = PROBABILITY.test(family) ? [...raw] : raw.map((value) => 1 / (1 + Math.exp(-value)))
  return { payload: { scores, tokens, usage: { prompt_tokens: tokens } } }
}
