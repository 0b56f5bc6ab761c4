import type { ModelCard } from '../../kernel/index.js'
import {
  MEMORY_CAP_FACTOR,
  MEMORY_FIXED_BYTES,
  MODEL_MEMORY_OVERHEAD,
  RUNNER_MEMORY_FLOOR_BYTES
} from './limits.js'

/**
 * Resident bytes above which a runner is ended: what placement counts for the weights plus a tenth, at
 * least 1 GiB; `configuredMb` (MiB) replaces it.
 */
export function memoryLimitBytes (
  card: Pick<ModelCard, 'totalBytes'>,
  configuredMb: number | undefined
): number {
  if (configuredMb !== undefined) return configuredMb * 1024 * 1024
  const share = card.totalBytes * MODEL_MEMORY_OVERHEAD + MEMORY_FIXED_BYTES
  return Math.ceil(Math.max(RUNNER_MEMORY_FLOOR_BYTES, share * MEMORY_CAP_FACTOR))
}
