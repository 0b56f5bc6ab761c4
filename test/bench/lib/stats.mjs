/** Simple statistics over lists of numbers. */

/** Interpolated quantile `q` (0 to 1) of the values; NaN for an empty list. */
export function quantile (values, q) {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) * q
  const low = sorted[Math.floor(at)]
  const high = sorted[Math.ceil(at)]
  return low === undefined || high === undefined ? Number.NaN : low + (high - low) * (at - Math.floor(at))
}

export const median = (values) => quantile(values, 0.5)

/** Slope of the least-squares line through [x, y] points. */
export function slope (points) {
  const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length
  const [mx, my] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))]
  const above = points.reduce((sum, [x, y]) => sum + (x - mx) * (y - my), 0)
  const below = points.reduce((sum, [x]) => sum + (x - mx) ** 2, 0)
  return above / below
}

export const pluck = (records, field) => records.map((record) => record[field])

/**
 * Runs each of `steps` once per round in rotation, so that other load on the machine affects all steps.
 */
export async function interleave (rounds, steps) {
  const results = Object.fromEntries(Object.keys(steps).map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    for (const [name, step] of Object.entries(steps)) results[name].push(await step(round))
  }
  return results
}
