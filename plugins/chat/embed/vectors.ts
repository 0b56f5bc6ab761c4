/** Pooling: from token vectors to one vector per text. Pure. */
import { EngineError } from '../../../kernel/api/engine.js'

export type Pooling = 'mean' | 'last' | 'first' | 'max'

const KEYS: ReadonlyArray<[string, Pooling]> = [
  ['pooling_mode_mean_tokens', 'mean'], ['pooling_mode_lasttoken', 'last'],
  ['pooling_mode_cls_token', 'first'], ['pooling_mode_max_tokens', 'max']
]

/** Encoder families that pool by taking the first token's vector, according to their model cards. */
const FIRST_TOKEN = /(^|[/_-])(bge|mxbai-embed|snowflake-arctic-embed|uae-large)([._-]|$)/i

/** Chooses the pooling by model name, because some converted models lack 1_Pooling/config.json. */
export const pooledByName = (modelId: string): Pooling => FIRST_TOKEN.test(modelId) ? 'first' : 'mean'

/**
 * Reads `1_Pooling/config.json` (sentence-transformers); returns `usual` if there is none. @throws
 * EngineError model_invalid for an unsupported pooling mode
 */
export function poolingOf (config: unknown, usual: Pooling): Pooling {
  if (typeof config !== 'object' || config === null) return usual
  const wanted = Object.entries(config).filter(([key, on]) => key.startsWith('pooling_mode_') && on === true)
  const found = KEYS.find(([key]) => wanted.length === 1 && wanted[0]?.[0] === key)
  if (found !== undefined) return found[1]
  const named = wanted.map(([key]) => key).join(' and ') || 'mode none'
  const served = KEYS.map(([key]) => key).join(', ')
  throw new EngineError('model_invalid', `pooling ${named} is not supported; use one of ${served}`)
}

function fold (
  rows: readonly Float32Array[], join: (sum: number, value: number) => number, start: number
): Float32Array {
  const size = rows[0]?.length ?? 0
  return Float32Array.from({ length: size }, (_, i) =>
    rows.reduce((sum, row) => join(sum, row[i] as number), start))
}

/** Pools at least one token vector. */
export function pool (tokens: readonly Float32Array[], pooling: Pooling): Float32Array {
  if (pooling === 'last') return Float32Array.from(tokens.at(-1) as Float32Array)
  if (pooling === 'first') return Float32Array.from(tokens[0] as Float32Array)
  if (pooling === 'max') return fold(tokens, Math.max, -Infinity)
  return fold(tokens, (sum, value) => sum + value, 0).map((sum) => sum / tokens.length)
}
