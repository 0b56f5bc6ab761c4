import type { ClusterView, MemoryClaim, NodeFacts } from './types.js'

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
function memoryKind (node: NodeFacts, backend: string): 'ram' | 'vram' {
  return backend === 'cpu' || node.vram === null ? 'ram' : 'vram'
}

/**
 * What a backend of the node can use: at most 0.75 of the RAM or 0.90 of the GPU's memory, and what is
 * available once the releases are through, less the reservations. Never below 0.
 */
export function usableOf (
  node: ToldNode, backend: string, claims: Pick<ClusterView, 'reservations' | 'releasing'>
): Usable {
  const memory = memoryKind(node, backend)
  const sum = (list: readonly MemoryClaim[]): number => list
    .filter((claim) => claim.nodeId === node.nodeId && memoryKind(node, claim.backend) === memory)
    .reduce((bytes, claim) => bytes + claim.bytes, 0)
  const [reservedBytes, releasingBytes] = [sum(claims.reservations), sum(claims.releasing)]
  const { ramTotal, ramAvailable } = node.memory
  let [totalBytes, limitBytes, freeBytes] = [ramTotal, Math.floor(ramTotal * 3 / 4), ramAvailable]
  if (memory === 'vram') {
    totalBytes = node.vram!.total
    limitBytes = Math.floor(totalBytes * 9 / 10)
    freeBytes = limitBytes - node.vram!.used
  }
  const freeSoon = Math.min(freeBytes + releasingBytes, limitBytes)
  const usableBytes = Math.max(0, Math.floor(freeSoon - reservedBytes))
  return { memory, totalBytes, limitBytes, freeBytes, reservedBytes, releasingBytes, usableBytes }
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

const GIB = 1024 ** 3

/** `9.75 GiB`. */
export function gib (bytes: number): string {
  return `${(bytes / GIB).toFixed(2)} GiB`
}
