import type { MemoryTraits } from '../../../kernel/index.js'
import type { ClusterView, EngineTraits, MemoryClaim, NodeFacts } from './types.js'

/** Memory of one device that a backend may use, in whole bytes, rounded down. */
export interface Usable {
  memory: 'ram' | 'vram'
  totalBytes: number
  /** The part of the total memory that models may use. */
  limitBytes: number
  /** For RAM, the available memory; for a GPU, its limit minus its usage, which may be negative. */
  freeBytes: number
  reservedBytes: number
  releasingBytes: number
  usableBytes: number
}

type ToldNode = NodeFacts & { memory: NonNullable<NodeFacts['memory']> }

export type Device = number | 'ram'

export const isGpu = ({ gpus }: Pick<NodeFacts, 'gpus'>, backend: string): boolean =>
  backend !== 'cpu' && gpus.length > 0

/** The engine's memory traits on a node; if the program is missing there, the library's traits. */
export const memoryTraits = (
  traits: MemoryTraits & Pick<EngineTraits, 'library'>, engine: string, { onLibrary, processBytes }: NodeFacts
): MemoryTraits => onLibrary?.includes(engine) === true ? traits.library ?? traits
  : { ...traits, ...processBytes?.[engine] === undefined ? {} : { fixedBytes: processBytes[engine] } }

export function deviceOf (
  node: NodeFacts, { backend, gpu = 0 }: Pick<MemoryClaim, 'backend' | 'gpu'>
): Device {
  return isGpu(node, backend) ? gpu : 'ram'
}

/**
 * Usable memory of a device: at most 0.75 of RAM or 0.90 of GPU memory, plus memory about to be released,
 * minus reservations; of RAM, also at most what the loaded models leave of `ramBudget`. Never below 0.
 */
export function usableOf (
  node: ToldNode, device: Device, claims: Pick<ClusterView, 'reservations' | 'releasing' | 'instances'>
): Usable {
  const sum = (list: readonly MemoryClaim[]): number => list
    .filter((claim) => claim.nodeId === node.nodeId && deviceOf(node, claim) === device)
    .reduce((bytes, claim) => bytes + claim.bytes, 0)
  const [reservedBytes, releasingBytes] = [sum(claims.reservations), sum(claims.releasing)]
  const { ramTotal, ramAvailable } = node.memory
  let [totalBytes, limitBytes, freeBytes] = [ramTotal, Math.floor(ramTotal * 3 / 4), ramAvailable]
  if (device === 'ram' && node.ramBudget !== undefined) {
    limitBytes = Math.min(limitBytes, node.ramBudget)
    freeBytes = Math.min(freeBytes + releasingBytes,
      node.ramBudget - sum(claims.instances.flatMap((one) => one.memory))) - releasingBytes
  } else if (device !== 'ram') {
    const { total, used } = node.gpus[device]!
    totalBytes = total
    limitBytes = Math.floor(totalBytes * 9 / 10)
    freeBytes = limitBytes - used
  }
  const memory = device === 'ram' ? 'ram' : 'vram'
  const freeSoon = Math.min(freeBytes + releasingBytes, limitBytes)
  const usableBytes = Math.max(0, Math.floor(freeSoon - reservedBytes))
  return { memory, totalBytes, limitBytes, freeBytes, reservedBytes, releasingBytes, usableBytes }
}

export function sumUsable (parts: readonly Usable[]): Usable {
  const sum = (of: (part: Usable) => number): number => parts.reduce((all, part) => all + of(part), 0)
  return {
    memory: parts[0]!.memory, totalBytes: sum((part) => part.totalBytes),
    limitBytes: sum((part) => part.limitBytes), freeBytes: sum((part) => part.freeBytes),
    reservedBytes: sum((part) => part.reservedBytes), releasingBytes: sum((part) => part.releasingBytes),
    usableBytes: sum((part) => part.usableBytes)
  }
}

/**
 * Bytes to free so that `neededBytes` fits, never less than 1; null if `neededBytes` exceeds what models may
 * use on the device.
 */
export function bytesToFree (usable: Usable, neededBytes: number): number | null {
  const { freeBytes, limitBytes, reservedBytes, releasingBytes } = usable
  if (neededBytes + reservedBytes >= Math.floor(limitBytes)) return null
  return Math.max(1, Math.ceil(neededBytes + 1 + reservedBytes - releasingBytes - freeBytes))
}

const GIB = 1024 ** 3

/** Formats bytes as `9.75 GiB`, or as `12 MiB` below a tenth of a GiB. */
export function gib (bytes: number, round = Math.round): string {
  return bytes < GIB / 10 ? `${Math.ceil(bytes / 1024 ** 2)} MiB`
    : `${(round(bytes / GIB * 100) / 100).toFixed(2)} GiB`
}
