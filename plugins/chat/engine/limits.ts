/** How much memory and work a model may take, from the options of its spec. */
import { cacheOf, EngineError, type ModelSpec } from '../../../kernel/api/engine.js'
import type { Limits } from './scheduler.js'

const DEFAULT_SEQUENCES = 16
const DEFAULT_QUEUE = 256
/** Part of that memory for the KV caches of sequences that have ended. */
const PREFIX_PART = 1 / 4

/** Sizes of a sequence's state in bytes. */
export interface StateSizes { tokenBytes: number, stateBytes: number }

/** An option that is a number from `least` up, without a fraction. @throws EngineError model_invalid */
export function option (
  options: Readonly<Record<string, unknown>>, name: string, least: number, usual: number
): number {
  const value = options[name] ?? usual
  if (typeof value === 'number' && Number.isFinite(value) && value >= least) return Math.floor(value)
  throw new EngineError('model_invalid',
    `option ${name} is ${String(value)}: it takes a number from ${least} up`)
}

/** An option that is true, or false as where it is not given. @throws EngineError model_invalid */
export function flag (options: Readonly<Record<string, unknown>>, name: string): boolean {
  const value = options[name] ?? false
  if (typeof value === 'boolean') return value
  throw new EngineError('model_invalid', `option ${name} is ${JSON.stringify(value)}: it takes true or false`)
}

/**
 * The memory is what placement counts for the instance, or less by the option `kv_cache_bytes`; the context
 * is at most what fits. Further options: `prefix_cache_bytes`, `max_batch` (sequences at once) and
 * `max_queue` (answers waiting).
 * @throws EngineError model_invalid for an option that is no such number
 */
export function limitsOf (
  { card, options }: ModelSpec, wanted: number, { tokenBytes, stateBytes }: StateSizes
): { limits: Limits, contextLength: number, queue: number } {
  // A card without heads says nothing of the memory: the graph does.
  const shape = card.kvHeads > 0 ? card : { nLayers: 1, kvHeads: 1, headSize: 1, valueBytes: tokenBytes / 2 }
  const { bytes } = cacheOf({ ...shape, contextLength: wanted }, wanted)
  // Beside the contexts: the next token, and what a sequence takes whatever its length.
  const usual = bytes + tokenBytes + stateBytes
  // Two tokens of context, and the next one.
  const least = 3 * tokenBytes + stateBytes
  const budget = Math.max(least, Math.min(option(options, 'kv_cache_bytes', least, usual), usual))
  const fitting = Math.floor((budget - stateBytes) / tokenBytes) - 1
  return {
    limits: {
      budget,
      prefixBudget: option(options, 'prefix_cache_bytes', 0, budget * PREFIX_PART),
      maxSequences: option(options, 'max_batch', 1, DEFAULT_SEQUENCES)
    },
    contextLength: Math.min(wanted, fitting),
    queue: option(options, 'max_queue', 1, DEFAULT_QUEUE)
  }
}
