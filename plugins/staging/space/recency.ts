import { newestFirst } from './order.js'

/** Idle copies, and what of them the lifecycle passes leave alone. Times are wall milliseconds. */
export interface RecencyCase {
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
export function planRecency ({ idle, budgetBytes, keepSinceMs = Infinity }: RecencyCase): string[] {
  const evict: string[] = []
  let kept = 0
  for (const { modelId, sizeBytes, lastUsedMs } of [...idle].sort(newestFirst)) {
    if (kept >= budgetBytes && lastUsedMs < keepSinceMs) evict.push(modelId)
    else kept += sizeBytes
  }
  return evict.reverse()
}
