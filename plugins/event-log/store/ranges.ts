/** Indices from the first to the second, both inclusive. */
export type Range = readonly [from: number, to: number]

/** Ranges in a list; beyond this the two oldest become one. */
const MOST = 1000

/** The ranges in order, those that touch or overlap as one. */
export function merged (list: readonly Range[]): Range[] {
  const result: [number, number][] = []
  for (const [from, to] of [...list].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1)
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to)
    else result.push([from, to])
  }
  if (result.length > MOST) result.splice(0, result.length - MOST + 1, [result[0]![0], result.at(-MOST)![1]])
  return result
}

/** What of the ranges lies from `from` to `to`. */
export function within (list: readonly Range[], from: number, to: number): Range[] {
  return list.map(([a, b]): Range => [Math.max(a, from), Math.min(b, to)]).filter(([a, b]) => a <= b)
}
