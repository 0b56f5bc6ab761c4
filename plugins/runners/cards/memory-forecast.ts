/** How much memory a model takes on a node: the one forecast that planner, runner and engine go by. Pure. */
import type { CacheType, MemoryFacts, MemoryTraits, ModelCard } from '../../../kernel/api/engine.js'

const MIB = 2 ** 20
/** Tokens of context, unless a request or a plan has another number. */
export const USUAL_CONTEXT = 8192
/** Small models keep as many whole contexts as fit in here, up to MOST_CONTEXTS: several answers at once. */
const SMALL_CACHE_BYTES = 512 * MIB
const MOST_CONTEXTS = 16
/** A key and a value of 16 bits. */
const KEY_AND_VALUE_BYTES = 4
/** Defaults of `overhead` and `fixedBytes`. */
const OVERHEAD = 1.3
const FIXED_BYTES = 256 * MIB
/** Tokens that an engine computes in one go, unless it says otherwise; most of an embedded text. */
export const BATCH_TOKENS = 512
export const MAX_EMBEDDED = 8192
/** A sliding window has room for a batch more, in whole blocks of so many tokens. */
const WINDOW_BLOCK = 256
/** Of a token of the vocabulary: its text in two tables; its logit, and its place among the candidates. */
const VOCABULARY_BYTES = 160
const LOGIT_BYTES = 4
const CANDIDATE_BYTES = 12
/** Size of the prompt cache: this fraction of weights and KV cache, at least `KEPT_BYTES`. */
const KEPT_PART = 1 / 16
const KEPT_BYTES = 32 * MIB
/** Copies of the windows and states of a context, from which a server goes on. */
export const CHECKPOINTS = 2

/** Values of 16 bits; bytes of one value in blocks of 32 as llama.cpp keeps them. */
const CACHE_TYPES: Readonly<Record<CacheType, number>> = { f16: 2, q8_0: 34 / 32, q4_0: 18 / 32 }

type Sized = Pick<ModelCard, 'nLayers' | 'kvHeads' | 'headSize' | 'contextLength' | 'totalBytes' | 'memory' |
  'cacheType'> & { tasks?: readonly string[] }

/** Tokens of context that an instance has: as asked, else the usual number; at most what its model can. */
export function contextOf ({ contextLength }: Pick<ModelCard, 'contextLength'>, asked?: number): number {
  return Math.min(contextLength, asked !== undefined && asked > 0 ? asked : USUAL_CONTEXT)
}

export interface Cache {
  contextBytes: number
  /** Whole contexts that the cache holds. */
  contexts: number
  bytes: number
  /** A copy of what cannot be cut behind a token: windows and states. */
  checkpointBytes: number
}

/** Of a card without them: what its sizes say, and a part of its weights for what is computed. */
function factsOf (
  { memory, totalBytes, nLayers, kvHeads, headSize }: Sized, overhead = OVERHEAD
): MemoryFacts {
  return memory ?? {
    weightBytes: totalBytes,
    tokenBytes: KEY_AND_VALUE_BYTES * nLayers * kvHeads * headSize,
    // In hundredths, because 1.1 x 1000 is more than 1100 in floating point.
    workBytes: Math.ceil(totalBytes * Math.round((overhead - 1) * 100) / 100)
  }
}

/** The cache of a model: so many whole contexts, or as many as make a small cache. */
export function cacheOf (card: Sized, context?: number, slots?: number): Cache {
  const tokens = contextOf(card, context)
  const scale = CACHE_TYPES[card.cacheType ?? 'f16'] / CACHE_TYPES.f16
  const { tokenBytes, windowTokenBytes = 0, windowTokens = 0, stateBytes = 0 } = factsOf(card)
  const room = Math.ceil((windowTokens + BATCH_TOKENS) / WINDOW_BLOCK) * WINDOW_BLOCK
  const inWindow = (most: number): number => windowTokenBytes * Math.min(tokens, most) * scale
  const contextBytes = Math.ceil(tokenBytes * tokens * scale + inWindow(room) + stateBytes)
  const checkpointBytes = Math.ceil(inWindow(windowTokens) + stateBytes)
  const fitting = contextBytes === 0 ? MOST_CONTEXTS : Math.floor(SMALL_CACHE_BYTES / contextBytes)
  // llama.cpp (b11434) gives documents wrong scores that are in one batch.
  const contexts = card.tasks?.includes('rerank') === true ? 1
    : slots ?? Math.min(MOST_CONTEXTS, Math.max(1, fitting))
  return { contextBytes, contexts, bytes: contextBytes * contexts, checkpointBytes }
}

/** `16 slots x 8192 tokens x 22.50 KiB`: windows and states are shared out among the tokens. */
export function cacheWords (card: Sized, context: number, slots: number): string {
  const each = (cacheOf(card, context).contextBytes / contextOf(card, context) / 1024).toFixed(2)
  return `${slots} ${slots === 1 ? 'slot' : 'slots'} x ${context} tokens x ${each} KiB`
}

/** Bytes in which a server keeps prompts that may come again. */
export function keptBytes (card: Sized, context?: number, slots?: number): number {
  return Math.max(KEPT_BYTES, Math.floor(
    (factsOf(card).weightBytes + cacheOf(card, context, slots).bytes) * KEPT_PART))
}

/** A fraction of the model, in whole numbers: layers of layers, or one of so many nodes. */
export interface Part { of: number, parts: number }

/** The terms of what one node must have. Whole bytes, rounded up. */
export interface Need {
  shareBytes: number
  cacheBytes: number
  /** Compute buffers, vocabulary, prompt cache. */
  bufferBytes: number
  /** The process, or what a GPU takes before anything is loaded. */
  fixedBytes: number
  neededBytes: number
  /** Bytes needed per byte of weights. */
  factor: number
}

const TERMS = ['shareBytes', 'cacheBytes', 'bufferBytes', 'fixedBytes'] as const
type Terms = Pick<Need, typeof TERMS[number]>

/** The sum as people read it. */
export function needWords (
  { shareBytes, cacheBytes, bufferBytes, fixedBytes }: Terms, show: (bytes: number) => string
): string {
  return `weights ${show(shareBytes)} + KV cache ${show(cacheBytes)} + buffers ${show(bufferBytes)} + ` +
    `process ${show(fixedBytes)}`
}

/** The part of a model on one device: `gpu` for the memory of a GPU, else that of a process. */
export interface DeviceTarget {
  /** Tokens of a context, and contexts; the usual numbers when absent. */
  context?: number | undefined
  slots?: number | undefined
  part?: Part
  gpu?: boolean
}

/** Memory for a part of a model on one device. */
export function needOf (
  card: Sized, traits: MemoryTraits,
  { context, slots, part = { of: 1, parts: 1 }, gpu = false }: DeviceTarget = {}
): Need {
  const portion = (bytes: number): number => Math.ceil(bytes * part.of / part.parts)
  const { fixedBytes = FIXED_BYTES, gpuBytes = fixedBytes } = traits
  const facts = factsOf(card, traits.overhead)
  return addNeeds([{
    shareBytes: portion(facts.weightBytes),
    cacheBytes: portion(cacheOf(card, context, slots).bytes),
    bufferBytes: portion(facts.workBytes ?? 0) + buffersOf(card, facts, traits, { context, slots, gpu }),
    fixedBytes: gpu ? gpuBytes : fixedBytes
  }])
}

/** The terms of several devices together. */
export function addNeeds (needs: readonly Terms[]): Need {
  const sums = { shareBytes: 0, cacheBytes: 0, bufferBytes: 0, fixedBytes: 0 }
  for (const need of needs) for (const term of TERMS) sums[term] += need[term]
  const neededBytes = TERMS.reduce((bytes, term) => bytes + sums[term], 0)
  return { ...sums, neededBytes, factor: sums.shareBytes === 0 ? 0 : neededBytes / sums.shareBytes }
}

function buffersOf (
  card: Sized, { batchTokenBytes = 0, vocabulary = 0 }: MemoryFacts,
  { batchTokens = BATCH_TOKENS, keepsPrompts = false }: MemoryTraits, { context, slots, gpu }: DeviceTarget
): number {
  const tokens = contextOf(card, context)
  const batch = card.tasks?.includes('embeddings') === true ? Math.min(tokens, MAX_EMBEDDED) : batchTokens
  const computing = Math.min(batch, tokens) * batchTokenBytes
  // A GPU takes room for the logits of a whole batch, and for the mask over its context.
  if (gpu) return computing + batch * (vocabulary * LOGIT_BYTES + tokens * 6)
  const { contexts, checkpointBytes } = cacheOf(card, context, slots)
  const kept = keepsPrompts ? keptBytes(card, context, slots) + contexts * CHECKPOINTS * checkpointBytes : 0
  return computing + kept + vocabulary * (VOCABULARY_BYTES + contexts * (LOGIT_BYTES + CANDIDATE_BYTES))
}
