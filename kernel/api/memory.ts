/** How much memory a model takes on a node: the one formula that planner, runner and engine go by. Pure. */
import type { ModelCard } from './engine.js'

const MIB = 2 ** 20
/** Tokens of context of an instance for which nobody asked for another number. */
export const USUAL_CONTEXT = 8192
/** Small models keep as many whole contexts as fit in here, up to MOST_CONTEXTS: several answers at once. */
const SMALL_CACHE_BYTES = 512 * MIB
const MOST_CONTEXTS = 16
const KEYS_AND_VALUES = 2
/** Bytes of one key or value where the card does not say. */
const VALUE_BYTES = 4
/** Memory in use per byte of weights, and beside the model, of an engine that declares none. */
const OVERHEAD = 1.3
const FIXED_BYTES = 256 * MIB

type Sized = Pick<ModelCard, 'nLayers' | 'kvHeads' | 'headSize' | 'contextLength' | 'valueBytes' | 'drafter' |
  'cacheTokenBytes' | 'stateBytes'>

/** What an engine takes beside the weights. */
export interface MemoryTraits { overhead?: number | undefined, fixedBytes?: number | undefined }

/** Tokens of context that an instance has: as asked, else the usual number; at most what its model can. */
export function contextOf ({ contextLength }: Pick<ModelCard, 'contextLength'>, asked?: number): number {
  return Math.min(contextLength, asked !== undefined && asked > 0 ? asked : USUAL_CONTEXT)
}

/** The memory for keys and values of an instance. */
export interface Cache {
  /** Of one whole context. */
  contextBytes: number
  /** Whole contexts that are kept at once. */
  contexts: number
  bytes: number
}

/** Bytes that a token takes in the cache of layers that are alike. */
export const layersTokenBytes = (
  { nLayers, kvHeads, headSize }: Pick<ModelCard, 'nLayers' | 'kvHeads' | 'headSize'>,
  valueBytes = VALUE_BYTES
): number => KEYS_AND_VALUES * nLayers * kvHeads * headSize * valueBytes

/**
 * The KV cache of a model with this context, its drafter's with it, which has the same context; 0 bytes where
 * the card has no heads. A layer with a sliding window counts like the others: engines here keep all of it.
 */
export function cacheOf (card: Sized, context?: number, slots?: number): Cache {
  const { valueBytes, drafter, stateBytes = 0 } = card
  const own = card.cacheTokenBytes ?? layersTokenBytes(card, valueBytes)
  const tokenBytes = own + (drafter === undefined ? 0 : layersTokenBytes(drafter, valueBytes))
  const contextBytes = tokenBytes * contextOf(card, context) + stateBytes
  const fitting = contextBytes === 0 ? MOST_CONTEXTS : Math.floor(SMALL_CACHE_BYTES / contextBytes)
  const contexts = slots ?? Math.min(MOST_CONTEXTS, Math.max(1, fitting))
  return { contextBytes, contexts, bytes: contextBytes * contexts }
}

/** A fraction of the model, in whole numbers: layers of layers, or one of so many nodes. */
export interface Part { of: number, parts: number }

/** The terms of what one node must have. Whole bytes, rounded up. */
export interface Need {
  shareBytes: number
  overhead: number
  weightsBytes: number
  cacheBytes: number
  fixedBytes: number
  neededBytes: number
}

/** What a node needs for its part: share x overhead + cache x part + fixed for each device it uses. */
export function needOf (
  card: Sized & Pick<ModelCard, 'totalBytes'>,
  { overhead = OVERHEAD, fixedBytes: each = FIXED_BYTES }: MemoryTraits, context?: number,
  part: Part = { of: 1, parts: 1 }, devices = 1, slots?: number
): Need {
  const fixedBytes = each * devices
  const portion = (bytes: number): number => Math.ceil(bytes * part.of / part.parts)
  const shareBytes = portion(card.totalBytes)
  // In hundredths, because 1.1 x 1000 is more than 1100 in floating point.
  const weightsBytes = Math.ceil(shareBytes * Math.round(overhead * 100) / 100)
  const cacheBytes = portion(cacheOf(card, context, slots).bytes)
  return {
    shareBytes, overhead, weightsBytes, cacheBytes, fixedBytes,
    neededBytes: weightsBytes + cacheBytes + fixedBytes
  }
}
