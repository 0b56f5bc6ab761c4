import { StoreError } from '../types.js'

/** A transfer that asks for room, and what there is. Bytes throughout. */
export interface CapacityCase {
  /** What the transfer will write beyond what is on the disk already. */
  additionalBytes: number
  freeBytes: number
  /** What must stay free after the transfer. */
  headroomBytes: number
  /** Of svc.yaml, that names the folder; `node_cache_path` when left out. */
  setting?: string
  idle: readonly { modelId: string, freeableBytes: number, lastUsedMs: number }[]
}

const GIB = 1024 ** 3
const shown = (bytes: number, round = Math.round): string => bytes < GIB / 10
  ? `${Math.ceil(bytes / 1024 ** 2)} MiB` : `${(round(bytes / GIB * 100) / 100).toFixed(2)} GiB`

/** `evictableBytes`: what evicting every idle copy gives back. */
function sentenceOf (
  { additionalBytes, freeBytes, headroomBytes, setting = 'node_cache_path' }: CapacityCase,
  evictableBytes: number, missingBytes: number
): string {
  return `${shown(additionalBytes)} more do not fit: ${shown(freeBytes)} are free, ` +
    `${shown(headroomBytes)} must stay free and evicting idle models gives back ${shown(evictableBytes)}, ` +
    `so ${shown(missingBytes, Math.ceil)} are missing. Free space on the volume, or have a larger one used ` +
    `(${setting} in svc.yaml), then try again.`
}

/**
 * The copies to evict, oldest first and only as many as it takes, so that the headroom is still free after
 * the transfer. Copies that give nothing back (hard-linked ones) stay. A transfer that adds nothing fits on
 * any disk. Throws StoreError `no_safe_fit`. Pure.
 */
export function requireFit (asked: CapacityCase): string[] {
  const { additionalBytes, freeBytes, headroomBytes } = asked
  if (additionalBytes <= 0) return []
  const needed = additionalBytes + headroomBytes
  const evict: string[] = []
  let evictableBytes = 0
  for (const { modelId, freeableBytes } of [...asked.idle].sort(newestFirst).reverse()) {
    if (freeBytes + evictableBytes >= needed) break
    if (freeableBytes <= 0) continue
    evict.push(modelId)
    evictableBytes += freeableBytes
  }
  const missingBytes = needed - freeBytes - evictableBytes
  if (missingBytes <= 0) return evict
  throw new StoreError('no_safe_fit', sentenceOf(asked, evictableBytes, missingBytes))
}

/** Idle copies, and what of them the lifecycle passes leave alone. Times are wall milliseconds. */
export interface RecencyInput {
  /** A time in the future is taken as it is: clamp it to now before. */
  idle: readonly { modelId: string, sizeBytes: number, lastUsedMs: number }[]
  budgetBytes: number
  /** Copies used at this time or later stay whatever the budget, and count into it. */
  keepSinceMs?: number
}

/**
 * What to evict, oldest first. Newest first a copy stays while the newer ones that stay do not fill the
 * budget: the copy that crosses it stays too, so idle data is never cut below the budget. A budget of 0
 * keeps none. Pure.
 */
export function planRecency ({ idle, budgetBytes, keepSinceMs = Infinity }: RecencyInput): string[] {
  const evict: string[] = []
  let kept = 0
  for (const { modelId, sizeBytes, lastUsedMs } of [...idle].sort(newestFirst)) {
    if (kept >= budgetBytes && lastUsedMs < keepSinceMs) evict.push(modelId)
    else kept += sizeBytes
  }
  return evict.reverse()
}

export interface Used { modelId: string, lastUsedMs: number }

/** Newest use first; equal times by model id, so that a plan comes out the same every time. */
export function newestFirst (a: Used, b: Used): number {
  return b.lastUsedMs - a.lastUsedMs || (a.modelId < b.modelId ? -1 : 1)
}

/** The direct companions of a model: drafters, sidecars, split vision weights. */
export type CompanionsOf = (modelId: string) => readonly string[]

/** The used models with everything they bring along, companions of companions too. Pure; cycles end. */
export function inUseClosure (used: Iterable<string>, companionsOf: CompanionsOf): Set<string> {
  const found = new Set(used)
  // A set's iterator also visits what is added while it runs.
  for (const modelId of found) for (const companion of companionsOf(modelId)) found.add(companion)
  return found
}
