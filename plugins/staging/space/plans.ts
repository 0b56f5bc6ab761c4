import { StoreError } from '../types.js'

/** Input of `requireFit`; all sizes in bytes. */
export interface CapacityCase {
  /** Bytes to write, without those already on disk. */
  additionalBytes: number
  freeBytes: number
  /** Bytes that must stay free after the transfer. */
  headroomBytes: number
  /** The svc.yaml setting of the folder, which the error names; `node_cache_path` by default. */
  setting?: string
  idle: readonly { modelId: string, freeableBytes: number, lastUsedMs: number }[]
}

const GIB = 1024 ** 3
export const sizeText = (bytes: number, round = Math.round): string => bytes < GIB / 10
  ? `${Math.ceil(bytes / 1024 ** 2)} MiB` : `${(round(bytes / GIB * 100) / 100).toFixed(2)} GiB`

/** `evictableBytes` is how much evicting every idle copy would free. */
function sentenceOf (
  { additionalBytes, freeBytes, headroomBytes, setting = 'node_cache_path' }: CapacityCase,
  evictableBytes: number, missingBytes: number
): string {
  return `${sizeText(additionalBytes)} more do not fit: ${sizeText(freeBytes)} are free, ` +
    `${sizeText(headroomBytes)} must stay free and evicting idle models gives back ` +
    `${sizeText(evictableBytes)}, so ${sizeText(missingBytes, Math.ceil)} are missing. ` +
    'Free disk space, or use a larger disk ' +
    `(${setting} in svc.yaml), then retry.`
}

/**
 * Chooses the copies to evict so that the headroom stays free after the transfer: least recently used first,
 * and no more than needed. Copies that would free nothing, because of hard links, stay. A transfer without
 * new bytes always fits. Throws StoreError `no_safe_fit`. Pure.
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

export interface RecencyInput {
  /** Idle copies. The caller must have replaced last uses in the future by the current time. */
  idle: readonly { modelId: string, sizeBytes: number, lastUsedMs: number }[]
  budgetBytes: number
  /** Copies used at or after this time stay regardless of the budget, but count toward it. */
  keepSinceMs?: number
}

/**
 * The copies to evict, oldest first. Keeps copies, most recently used first, until they fill the budget,
 * including the one that crosses it: eviction never goes below the budget. A budget of 0 keeps none. Pure.
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

/** Sorts by last use, newest first; equal times by model id, so that plans are reproducible. */
export function newestFirst (a: Used, b: Used): number {
  return b.lastUsedMs - a.lastUsedMs || (a.modelId < b.modelId ? -1 : 1)
}

/** The direct companions of a model: draft models, sidecars, separate vision weights. */
export type CompanionsOf = (modelId: string) => readonly string[]

/** The used models and all their companions, recursively; cycles are fine. Pure. */
export function inUseClosure (used: Iterable<string>, companionsOf: CompanionsOf): Set<string> {
  const found = new Set(used)
  // The loop also visits the companions that it adds, since a Set iterates over elements added meanwhile.
  for (const modelId of found) for (const companion of companionsOf(modelId)) found.add(companion)
  return found
}
