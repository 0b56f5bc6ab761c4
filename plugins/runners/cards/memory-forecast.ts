/** Forecasts the memory of a model on a node: planner, runner and engine share this formula. Pure. */
import type { CacheType, MemoryFacts, MemoryTraits, ModelCard } from '../../../kernel/api/engine.js'

const MIB = 2 ** 20
/** Context in tokens if neither the request nor the plan sets a length. */
export const USUAL_CONTEXT = 8192
/** Bytes available for the contexts of a small model: it gets as many as fit, at most MOST_CONTEXTS. */
const SMALL_CACHE_BYTES = 512 * MIB
const MOST_CONTEXTS = 16
const KEY_AND_VALUE_BYTES = 4
const OVERHEAD = 1.3
const FIXED_BYTES = 256 * MIB
/** Default batch size, and maximum length of a text to embed; both in tokens. */
export const BATCH_TOKENS = 512
export const MAX_EMBEDDED = 8192
/** A sliding window has space for one more batch, rounded up to blocks of this many tokens. */
const WINDOW_BLOCK = 256
/** Bytes per vocabulary token: its text in two tables, its logit, and its entry in the candidate list. */
const VOCABULARY_BYTES = 160
const LOGIT_BYTES = 4
const CANDIDATE_BYTES = 12
/** Size of the prompt cache: this fraction of weights plus KV cache, at least `KEPT_BYTES`. */
const KEPT_PART = 1 / 16
const KEPT_BYTES = 32 * MIB
/** Checkpoints (window caches and recurrent states) that a server stores per context to resume from. */
export const CHECKPOINTS = 2

/** Bytes per cached value: 16 bits, or blocks of 32 quantized values as in llama.cpp. */
const CACHE_TYPES: Readonly<Record<CacheType, number>> = { f16: 2, q8_0: 34 / 32, q4_0: 18 / 32 }

type Sized = Pick<ModelCard, 'nLayers' | 'kvHeads' | 'headSize' | 'contextLength' | 'totalBytes' | 'memory' |
  'cacheType'> & { tasks?: readonly string[] }

/** Context length of an instance in tokens: as requested, or the default; at most the model's limit. */
export function contextOf ({ contextLength }: Pick<ModelCard, 'contextLength'>, asked?: number): number {
  return Math.min(contextLength, asked !== undefined && asked > 0 ? asked : USUAL_CONTEXT)
}

/** The card's memory facts; if it has none, an estimate that adds a share of the weights for buffers. */
function factsOf (
  { memory, totalBytes, nLayers, kvHeads, headSize }: Sized, overhead = OVERHEAD
): MemoryFacts {
  return memory ?? {
    weightBytes: totalBytes,
    tokenBytes: KEY_AND_VALUE_BYTES * nLayers * kvHeads * headSize,
    // Calculated in hundredths, because 1.1 x 1000 is more than 1100 in floating point.
    workBytes: Math.ceil(totalBytes * Math.round((overhead - 1) * 100) / 100)
  }
}

/** The KV cache for `slots` full contexts; by default for as many as fit in SMALL_CACHE_BYTES. */
export function cacheOf (card: Sized, context?: number, slots?: number) {
  const tokens = contextOf(card, context)
  const scale = CACHE_TYPES[card.cacheType ?? 'f16'] / CACHE_TYPES.f16
  const { tokenBytes, windowTokenBytes = 0, windowTokens = 0, stateBytes = 0 } = factsOf(card)
  const windowSize = Math.ceil((windowTokens + BATCH_TOKENS) / WINDOW_BLOCK) * WINDOW_BLOCK
  const inWindow = (most: number): number => windowTokenBytes * Math.min(tokens, most) * scale
  const contextBytes = Math.ceil(tokenBytes * tokens * scale + inWindow(windowSize) + stateBytes)
  /** Bytes of one checkpoint; needed since window caches and recurrent states cannot be truncated. */
  const checkpointBytes = Math.ceil(inWindow(windowTokens) + stateBytes)
  const fitting = contextBytes === 0 ? MOST_CONTEXTS : Math.floor(SMALL_CACHE_BYTES / contextBytes)
  // llama.cpp (b11434) scores documents wrongly if several share a batch.
  const contexts = card.tasks?.includes('rerank') === true ? 1
    : slots ?? Math.min(MOST_CONTEXTS, Math.max(1, fitting))
  return { contextBytes, contexts, bytes: contextBytes * contexts, checkpointBytes }
}

/** For example `16 slots x 8192 tokens x 22.50 KiB`, where the KiB include window caches and states. */
export function cacheWords (card: Sized, context: number, slots: number): string {
  const each = (cacheOf(card, context).contextBytes / contextOf(card, context) / 1024).toFixed(2)
  return `${slots} ${slots === 1 ? 'slot' : 'slots'} x ${context} tokens x ${each} KiB`
}

export function keptBytes (card: Sized, context?: number, slots?: number): number {
  return Math.max(KEPT_BYTES, Math.floor(
    (factsOf(card).weightBytes + cacheOf(card, context, slots).bytes) * KEPT_PART))
}

/** A fraction of the model as two integers: some of its layers, or the share of one of several nodes. */
export interface Part { of: number, parts: number }

/** Memory that one node needs, by purpose; bytes, rounded up. */
export interface Need {
  shareBytes: number
  cacheBytes: number
  /** Compute buffers, vocabulary and prompt cache. */
  bufferBytes: number
  /** Memory of the process itself; on a GPU the memory in use before anything is loaded. */
  fixedBytes: number
  neededBytes: number
  /** Bytes needed per byte of weights. */
  factor: number
}

const TERMS = ['shareBytes', 'cacheBytes', 'bufferBytes', 'fixedBytes'] as const
type Terms = Pick<Need, typeof TERMS[number]>

export function needWords (
  { shareBytes, cacheBytes, bufferBytes, fixedBytes }: Terms, show: (bytes: number) => string
): string {
  return `weights ${show(shareBytes)} + KV cache ${show(cacheBytes)} + buffers ${show(bufferBytes)} + ` +
    `process ${show(fixedBytes)}`
}

/** The device for a part of a model: GPU memory if `gpu`, otherwise process memory. */
export interface DeviceTarget {
  /** Tokens per context, and number of contexts; absent for the defaults. */
  context?: number | undefined
  slots?: number | undefined
  part?: Part
  gpu?: boolean
}

export function needOf (
  card: Sized, traits: MemoryTraits,
  { context, slots, part = { of: 1, parts: 1 }, gpu = false }: DeviceTarget = {}
): Need {
  const portion = (bytes: number): number => Math.ceil(bytes * part.of / part.parts)
  const { fixedBytes = FIXED_BYTES, gpuBytes = fixedBytes } = traits
  const facts = factsOf(card, traits.overhead)
  return addNeeds([{
    shareBytes: portion(facts.weightBytes), cacheBytes: portion(cacheOf(card, context, slots).bytes),
    bufferBytes: portion(facts.workBytes ?? 0) + buffersOf(card, facts, traits, { context, slots, gpu }),
    fixedBytes: gpu ? gpuBytes : fixedBytes
  }])
}

export function addNeeds (needs: readonly Terms[]): Need {
  const sums = { shareBytes: 0, cacheBytes: 0, bufferBytes: 0, fixedBytes: 0 }
  for (const need of needs) for (const term of TERMS) sums[term] += need[term]
  const neededBytes = TERMS.reduce((bytes, term) => bytes + sums[term], 0)
  return { ...sums, neededBytes, factor: sums.shareBytes === 0 ? 0 : neededBytes / sums.shareBytes }
}

function buffersOf (
  card: Sized, { batchTokenBytes = 0, vocabulary = 0 }: MemoryFacts,
  { batchTokens = BATCH_TOKENS, keepsPrompts = false, vocabularyBytes = VOCABULARY_BYTES }: MemoryTraits,
  { context, slots, gpu }: DeviceTarget
): number {
  const tokens = contextOf(card, context)
  const batch = card.tasks?.includes('embeddings') === true ? Math.min(tokens, MAX_EMBEDDED) : batchTokens
  const computing = Math.min(batch, tokens) * batchTokenBytes
  // A GPU also holds the logits of a whole batch and the attention mask over its context.
  if (gpu) return computing + batch * (vocabulary * LOGIT_BYTES + tokens * 6)
  const { contexts, checkpointBytes } = cacheOf(card, context, slots)
  const cached = keepsPrompts ? keptBytes(card, context, slots) + contexts * CHECKPOINTS * checkpointBytes : 0
  return computing + cached + vocabulary * (vocabularyBytes + contexts * (LOGIT_BYTES + CANDIDATE_BYTES))
}
