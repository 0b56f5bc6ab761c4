import type { ModelCard } from '../../../kernel/index.js'
import type { ClusterView, MemoryClaim, NodeFacts } from './types.js'

/** Tokens whose keys and values are counted for every placement. */
export const CACHE_TOKENS = 8192
/** What a runner takes beside the model, per node. */
export const FIXED_BYTES = 256 * 1024 * 1024
const BYTES_PER_CACHED_VALUE = 2
const KEYS_AND_VALUES = 2

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

/** Bytes of keys and values of a whole model; 0 where the card has no heads. */
export function cacheBytes (card: ModelCard): number {
  const values = card.nLayers * card.kvHeads * card.headSize * CACHE_TOKENS
  return KEYS_AND_VALUES * BYTES_PER_CACHED_VALUE * values
}

/** What a node needs for its part: share x overhead + cache x part + fixed. */
export function needOf (card: ModelCard, overhead: number, part: Part): Need {
  const portion = (bytes: number): number => Math.ceil(bytes * part.of / part.parts)
  const shareBytes = portion(card.totalBytes)
  // In hundredths, because 1.1 x 1000 is more than 1100 in floating point.
  const weightsBytes = Math.ceil(shareBytes * Math.round(overhead * 100) / 100)
  const cache = portion(cacheBytes(card))
  return {
    shareBytes,
    overhead,
    weightsBytes,
    cacheBytes: cache,
    fixedBytes: FIXED_BYTES,
    neededBytes: weightsBytes + cache + FIXED_BYTES
  }
}

/** The terms of what one node can give to a backend. Whole bytes, rounded down. */
export interface Usable {
  memory: 'ram' | 'vram'
  totalBytes: number
  /** The most of the total that models may take. */
  limitBytes: number
  /** RAM: what is available. GPU: what is left of the limit, below 0 when it is exceeded. */
  freeBytes: number
  reservedBytes: number
  releasingBytes: number
  usableBytes: number
}

type ToldNode = NodeFacts & { memory: NonNullable<NodeFacts['memory']> }

/** Which memory a backend of the node uses. */
function poolOf (node: NodeFacts, backend: string): 'ram' | 'vram' {
  return backend === 'cpu' || node.vram === null ? 'ram' : 'vram'
}

/**
 * What a backend of the node can use: at most 0.75 of the RAM or 0.90 of the GPU's memory, and what is
 * available once the releases are through, less the reservations. Never below 0.
 */
export function usableOf (node: ToldNode, backend: string, claims: NodeClaims): Usable {
  const memory = poolOf(node, backend)
  const sum = (list: readonly MemoryClaim[]): number => list
    .filter((claim) => poolOf(node, claim.backend) === memory)
    .reduce((bytes, claim) => bytes + claim.bytes, 0)
  const [reservedBytes, releasingBytes] = [sum(claims.reserved), sum(claims.releasing)]
  const pool = memory === 'vram' ? vramOf(node.vram!) : ramOf(node.memory)
  const freeSoon = Math.min(pool.freeBytes + releasingBytes, pool.limitBytes)
  const usableBytes = Math.max(0, Math.floor(freeSoon - reservedBytes))
  return { memory, ...pool, reservedBytes, releasingBytes, usableBytes }
}

/**
 * Bytes to free so that `neededBytes` fit, at least 1 (also where they fit already); null where the limit
 * does not allow them.
 */
export function bytesToFree (usable: Usable, neededBytes: number): number | null {
  const { freeBytes, limitBytes, reservedBytes, releasingBytes } = usable
  if (neededBytes + reservedBytes >= Math.floor(limitBytes)) return null
  return Math.max(1, Math.ceil(neededBytes + 1 + reservedBytes - releasingBytes - freeBytes))
}

type Pool = Pick<Usable, 'totalBytes' | 'limitBytes' | 'freeBytes'>

function ramOf ({ ramTotal, ramAvailable }: ToldNode['memory']): Pool {
  return { totalBytes: ramTotal, limitBytes: Math.floor(ramTotal * 3 / 4), freeBytes: ramAvailable }
}

function vramOf ({ total, used }: NonNullable<NodeFacts['vram']>): Pool {
  const limitBytes = Math.floor(total * 9 / 10)
  return { totalBytes: total, limitBytes, freeBytes: limitBytes - used }
}

/** The claims on one node. */
export interface NodeClaims { reserved: readonly MemoryClaim[], releasing: readonly MemoryClaim[] }

/** The claims of a view by node. */
export function claimsByNode (view: ClusterView): (nodeId: string) => NodeClaims {
  const [reserved, releasing] = [grouped(view.reservations), grouped(view.releasing)]
  return (nodeId) => ({ reserved: reserved.get(nodeId) ?? [], releasing: releasing.get(nodeId) ?? [] })
}

function grouped (claims: readonly MemoryClaim[]): Map<string, MemoryClaim[]> {
  const byNode = new Map<string, MemoryClaim[]>()
  for (const claim of claims) {
    const list = byNode.get(claim.nodeId)
    if (list === undefined) byNode.set(claim.nodeId, [claim])
    else list.push(claim)
  }
  return byNode
}

const GIB = 1024 ** 3

/** `9.75 GiB`. */
export function gib (bytes: number): string {
  return `${(bytes / GIB).toFixed(2)} GiB`
}
