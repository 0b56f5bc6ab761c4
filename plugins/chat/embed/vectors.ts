/** Vectors: from those of tokens to one for each text; what a task `embed` asks for and is answered. Pure. */
import { EngineError, type EngineChunk } from '../../../kernel/api/engine.js'
import { invalid } from '../refusals.js'

/** How the vector of a text is to be given. */
export interface VectorShape {
  /** Its first numbers only; all of them where absent. */
  dimensions: number | undefined
  /** With length 1. */
  normalize: boolean
}

/** Which tokens a text's vector is made of. */
export type Pooling = 'mean' | 'last' | 'first' | 'max'

const KEYS: ReadonlyArray<[string, Pooling]> = [
  ['pooling_mode_mean_tokens', 'mean'], ['pooling_mode_lasttoken', 'last'],
  ['pooling_mode_cls_token', 'first'], ['pooling_mode_max_tokens', 'max']
]

/** Families of encoders that are trained to be read at their first token, by what their makers say. */
const FIRST_TOKEN = /(^|[/_-])(bge|mxbai-embed|snowflake-arctic-embed|uae-large)([._-]|$)/i

/** How a model is pooled where no file says so: by its name, as conversions leave that file out. */
export const pooledByName = (modelId: string): Pooling => FIRST_TOKEN.test(modelId) ? 'first' : 'mean'

/**
 * Reads the `config.json` of a folder `1_Pooling` (sentence-transformers); `usual` where there is none.
 * @throws EngineError model_invalid for a way of pooling that is not served
 */
export function poolingOf (config: unknown, usual: Pooling): Pooling {
  if (typeof config !== 'object' || config === null) return usual
  const wanted = Object.entries(config).filter(([key, on]) => key.startsWith('pooling_mode_') && on === true)
  const found = KEYS.find(([key]) => wanted.length === 1 && wanted[0]?.[0] === key)
  if (found !== undefined) return found[1]
  const named = wanted.map(([key]) => key).join(' and ') || 'of no kind'
  const served = KEYS.map(([key]) => key).join(', ')
  throw new EngineError('model_invalid', `pooling ${named} is not served: one of ${served} is`)
}

function fold (
  rows: readonly Float32Array[], join: (sum: number, value: number) => number, start: number
): Float32Array {
  const size = rows[0]?.length ?? 0
  return Float32Array.from({ length: size }, (_, i) =>
    rows.reduce((sum, row) => join(sum, row[i] as number), start))
}

/** One vector of the vectors of a text's tokens, of which there is at least one. */
export function pool (tokens: readonly Float32Array[], pooling: Pooling): Float32Array {
  if (pooling === 'last') return Float32Array.from(tokens.at(-1) as Float32Array)
  if (pooling === 'first') return Float32Array.from(tokens[0] as Float32Array)
  if (pooling === 'max') return fold(tokens, Math.max, -Infinity)
  return fold(tokens, (sum, value) => sum + value, 0).map((sum) => sum / tokens.length)
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
