/** Optimal string alignment distance: edits (insert, delete, replace, swap of neighbours) from `a` to `b`. */
export function editDistance (a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => [i])
  for (let j = 1; j <= b.length; j++) rows[0]![j] = j
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const [row, above] = [rows[i]!, rows[i - 1]!]
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row[j] = Math.min(above[j]! + 1, row[j - 1]! + 1, above[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1),
        swapped ? rows[i - 2]![j - 2]! + 1 : Infinity)
    }
  }
  return rows[a.length]![b.length]!
}

const plain = (text: string): string => text.replace(/[-_\s]/g, '').toLowerCase()

/**
 * The most similar candidate; undefined if more than a third of the letters differ. Case, dashes and
 * underscores are ignored, so `allowedHosts` finds `allowed_hosts`.
 */
export function nearest (text: string, candidates: Iterable<string>): string | undefined {
  if (text.length > 100) return undefined
  let best: string | undefined
  let bestDistance = Infinity
  for (const candidate of candidates) {
    const limit = Math.max(1, Math.floor(Math.max(text.length, candidate.length) / 3))
    const distance = editDistance(plain(text), plain(candidate))
    if (distance > limit || distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}
