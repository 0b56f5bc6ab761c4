/** From the vectors of tokens to one for each text. Pure. */
import { EngineError } from '../../../kernel/api/engine.js'

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
