/** How much memory and work a model may take, from the options of its spec. */
import { EngineError } from '../../../kernel/api/engine.js'
import type { Limits } from './scheduler.js'

const GIB = 2 ** 30
/** Default memory for KV caches, bytes; one sequence of the whole context always fits. */
const DEFAULT_BUDGET = GIB
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

/**
 * Options: `context_length` (a shorter one than the model's), `kv_cache_bytes`, `prefix_cache_bytes`,
 * `max_batch` (sequences at once) and `max_queue` (answers waiting). The context is at most what fits into
 * the budget.
 * @throws EngineError model_invalid for an option that is no such number
 */
export function limitsOf (
  options: Record<string, unknown>, contextLength: number, { tokenBytes, stateBytes }: StateSizes
): { limits: Limits, contextLength: number, queue: number } {
  const wanted = Math.min(option(options, 'context_length', 2, contextLength), contextLength)
  const whole = (wanted + 1) * tokenBytes + stateBytes
  // Two tokens of context, and the next one.
  const least = 3 * tokenBytes + stateBytes
  const budget = option(options, 'kv_cache_bytes', least, Math.max(DEFAULT_BUDGET, whole))
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
