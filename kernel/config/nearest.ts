/** Optimal string alignment distance: edits (insert, delete, replace, swap of neighbours) from `a` to `b`. */
export function editDistance (a: string, b: string): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      let best = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) best = Math.min(best, (before[j - 2] ?? 0) + 1)
      next.push(best)
    }
    before = row
    row = next
  }
  return row[b.length] ?? 0
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
