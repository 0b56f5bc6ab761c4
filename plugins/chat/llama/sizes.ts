/** How much one server takes on, from the card and the options of the spec. Pure. */
import type { ModelSpec } from '../../../kernel/api/engine.js'
import { option } from '../engine/limits.js'

const MIB = 2 ** 20
/**
 * The server takes the memory of all its tokens at once when it starts, and placement counts this many. A
 * small model gets more, in what placement leaves free beside.
 */
const DEFAULT_TOKENS = 8_192
const SMALL_BYTES = 128 * MIB
const DEFAULT_PROMPT_CACHE = 128 * MIB
const MAX_SLOTS = 16
const DEFAULT_QUEUE = 256
/** Keys and values are kept as 16-bit floats. */
const VALUE_BYTES = 2
/** An embedding is made in one go, with memory for all tokens of the text. */
const MAX_EMBEDDED = 8_192

/** Bounds of a server. */
export interface Sizes {
  /** Tokens of one prompt and its answer. */
  contextLength: number
  /** Answers written at once. */
  slots: number
  /** Answers written or waiting at once. */
  most: number
  /** Memory for prompts that may come again. */
  promptCacheMib: number
}

/**
 * Options: `context_length` (a shorter one than the model's), `kv_cache_bytes`, `prefix_cache_bytes`,
 * `max_batch` (answers at once) and `max_queue` (answers waiting).
 * @throws EngineError model_invalid for an option that is no such number
 */
export function sizesOf (spec: ModelSpec, embeds: boolean): Sizes {
  const { card, options } = spec
  const { nLayers, kvHeads, headSize } = card
  const tokenBytes = Math.max(1, 2 * nLayers * kvHeads * headSize * VALUE_BYTES)
  const usual = Math.max(DEFAULT_TOKENS * tokenBytes, SMALL_BYTES)
  const tokens = Math.floor(option(options, 'kv_cache_bytes', 2 * tokenBytes, usual) / tokenBytes)
  const longest = Math.min(card.contextLength, tokens, embeds ? MAX_EMBEDDED : Infinity)
  const contextLength = Math.min(option(options, 'context_length', 2, longest), longest)
  const fitting = Math.max(1, Math.floor(tokens / contextLength))
  const slots = Math.min(option(options, 'max_batch', 1, MAX_SLOTS), fitting)
  return {
    contextLength,
    slots,
    most: slots + option(options, 'max_queue', 1, DEFAULT_QUEUE),
    promptCacheMib: Math.floor(option(options, 'prefix_cache_bytes', 0, DEFAULT_PROMPT_CACHE) / MIB)
  }
}
