/** Request and answer of the tasks `embed`, vectors of texts, and `rerank`, ranks of documents. Pure. */
import { invalid } from './refusals.js'
import type { EngineChunk, ModelCard } from '../../../kernel/api/engine.js'

export interface VectorShape {
  /** Its first numbers only; all of them where absent. */
  dimensions: number | undefined
  /** With length 1. */
  normalize: boolean
}

/** The vector with length 1; a vector of zeros stays. Its first `dimensions` numbers only, where given. */
export function normalised (vector: Float32Array, dimensions = vector.length): Float32Array {
  const kept = vector.subarray(0, dimensions)
  const norm = Math.sqrt(kept.reduce((sum, value) => sum + value * value, 0))
  return norm === 0 ? Float32Array.from(kept) : kept.map((value) => value / norm)
}

/**
 * Reads the payload of a task; what each input is has still to be checked. `input` is a text, token ids, or
 * a list of either. @throws EngineError invalid_request
 */
export function readEmbed (
  { input, dimensions, normalize }: Readonly<Record<string, unknown>>
): { inputs: unknown[], shape: VectorShape } {
  const inputs: unknown[] = Array.isArray(input) && typeof input[0] !== 'number' ? input : [input]
  if (inputs.length === 0) throw invalid('input is empty: it takes at least one text', 'input')
  if (dimensions != null && !(Number.isInteger(dimensions) && Number(dimensions) > 0)) {
    const given = JSON.stringify(dimensions)
    throw invalid(`dimensions is ${given}: it takes a whole number from 1 up`, 'dimensions')
  }
  const size = dimensions == null ? undefined : Number(dimensions)
  return { inputs, shape: { dimensions: size, normalize: normalize !== false } }
}

/** The vector as it was asked for. @throws EngineError invalid_request where it has fewer dimensions */
function shapedVector (vector: Float32Array, { dimensions, normalize }: VectorShape): Float32Array {
  if (dimensions !== undefined && dimensions > vector.length) {
    throw invalid(`dimensions is ${dimensions}, but vectors of this model have ${vector.length}`,
      'dimensions')
  }
  return normalize ? normalised(vector, dimensions) : vector.slice(0, dimensions)
}

/** The chunk of one text. @throws EngineError invalid_request where its vector has fewer dimensions */
export function vectorChunk (index: number, vector: Float32Array, shape: VectorShape): EngineChunk {
  const numbers = shapedVector(vector, shape)
  const media = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength)
  return { payload: { kind: 'embedding', index, dimensions: numbers.length }, media }
}

/** Families whose last layer gives a probability; that of all others gives its logit. */
const PROBABILITY = /^qwen3(vl)?$/

/** The answer to a task `rerank`: a probability for each document. */
export function scoresChunk ({ family }: ModelCard, raw: readonly number[], tokens: number): EngineChunk {
  const scores = PROBABILITY.test(family) ? [...raw] : raw.map((value) => 1 / (1 + Math.exp(-value)))
  return { payload: { scores, tokens } }
}
