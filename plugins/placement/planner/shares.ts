/**
 * Whole layers in proportion to the weights: every rank at least one and at most its capacity, and what
 * does not fit on one goes to the others. The capacities must hold all layers, and there must be at least
 * as many layers as ranks.
 */
export function splitLayers (
  layers: number, ranks: readonly { weight: number, capacity: number }[]
): number[] {
  const total = ranks.reduce((sum, { weight }) => sum + weight, 0)
  const due = ranks.map(({ weight }) => total > 0 ? layers * weight / total : layers / ranks.length)
  const given = ranks.map(() => 1)
  for (let left = layers - ranks.length; left > 0; left--) {
    let best = -1
    ranks.forEach(({ capacity }, i) => {
      if (given[i]! >= capacity) return
      if (best < 0 || due[i]! - given[i]! > due[best]! - given[best]!) best = i
    })
    given[best]!++
  }
  return given
}
