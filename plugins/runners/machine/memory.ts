import type { ModelCard } from '../../../kernel/index.js'
import {
  MEMORY_CAP_FACTOR,
  MEMORY_FIXED_BYTES,
  MODEL_MEMORY_OVERHEAD,
  RUNNER_MEMORY_FLOOR_BYTES,
  USUAL_SEQUENCE_BYTES
} from '../limits.js'

type Sized = Pick<ModelCard, 'nLayers' | 'kvHeads' | 'headSize' | 'contextLength'>

/** Keys and values, as 32-bit floats. */
const VALUE_BYTES = 2 * 4

/**
 * Bytes of keys and values that an engine may keep of a language model: as its option `kv_cache_bytes` says,
 * else one sequence of the whole context, and at least what the engines here take by themselves.
 */
export function sequenceBytes (
  { nLayers, kvHeads, headSize, contextLength }: Sized, options: Readonly<Record<string, unknown>>
): number {
  const token = nLayers * kvHeads * headSize * VALUE_BYTES
  const given = Number(options['kv_cache_bytes'])
  if (given > 0) return given
  return token > 0 ? Math.max(USUAL_SEQUENCE_BYTES, token * contextLength) : 0
}

/**
 * Resident bytes above which a runner is ended: what placement counts for the weights, and `sequences` twice,
 * as a step makes them anew; plus a tenth, at least 1 GiB. `configuredMb` (MiB) replaces it.
 */
export function memoryLimitBytes (
  card: Pick<ModelCard, 'totalBytes'>,
  configuredMb: number | undefined,
  sequences = 0
): number {
  if (configuredMb !== undefined) return configuredMb * 1024 * 1024
  const share = card.totalBytes * MODEL_MEMORY_OVERHEAD + MEMORY_FIXED_BYTES + 2 * sequences
  return Math.ceil(Math.max(RUNNER_MEMORY_FLOOR_BYTES, share * MEMORY_CAP_FACTOR))
}
