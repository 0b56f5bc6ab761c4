export const SWAPS_MAX = 64
/** A model was unloaded for another one: the two models, and when, in monotonic ms. */
export interface Swap { models: readonly string[], mono: number }
/** From this many swaps of a pair within WINDOW load times, the loaded model stays for STAY load times. */
const SWAPS_LEAST = 3
const WINDOW = 10
const STAY = 3

/**
 * Until when a model must stay loaded, because it keeps taking turns with another one. All times are
 * monotonic ms. Pure.
 */
export function staysUntil (
  swaps: readonly Swap[], modelId: string, { startedAt, readyAt }: { startedAt: number, readyAt: number }
): number {
  const loadMs = readyAt - startedAt
  const counts = new Map<string, number>()
  for (const { models, mono } of swaps) {
    const other = models.find((one) => one !== modelId)
    if (!models.includes(modelId) || other === undefined || mono < readyAt - WINDOW * loadMs) continue
    counts.set(other, (counts.get(other) ?? 0) + 1)
  }
  return Math.max(0, ...counts.values()) >= SWAPS_LEAST ? readyAt + STAY * loadMs : readyAt
}
