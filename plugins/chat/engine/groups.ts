/** Which sequences go through the model together. */

/** What a call costs, in any one unit. */
export interface CallCost {
  /** Of a call, whatever its rows. */
  call: number
  /** Of one token of state of one row, padding included. */
  token: number
  /** Most rows of one call. */
  maxRows: number
  /** False where rows of one call must have the same length. */
  ragged: boolean
}

/**
 * Splits sequences into calls so that the sum of costs is least: rows are padded to the longest of their
 * call, and a call that is short of rows reads all weights for few. Answers indexes into `lengths`, within a
 * call from the shortest to the longest, equal ones in their order.
 */
export function partition (lengths: readonly number[], cost: CallCost): number[][] {
  const order = lengths.map((_, i) => i).sort((a, b) => at(lengths, a) - at(lengths, b) || a - b)
  const sorted = order.map(i => at(lengths, i))
  const least: number[] = [0]
  const from: number[] = [0]
  for (let end = 1; end <= sorted.length; end++) {
    least[end] = Infinity
    const longest = at(sorted, end - 1)
    for (let start = end - 1; start >= 0 && end - start <= cost.maxRows; start--) {
      if (!cost.ragged && at(sorted, start) !== longest) break
      const total = at(least, start) + cost.call + (end - start) * longest * cost.token
      if (total < at(least, end)) {
        least[end] = total
        from[end] = start
      }
    }
  }
  const groups: number[][] = []
  for (let end = sorted.length; end > 0; end = at(from, end)) groups.unshift(order.slice(at(from, end), end))
  return groups
}

const at = (list: readonly number[], i: number): number => list[i] as number
