import type { Candidate } from './candidates.js'

/** Whether two candidates, by their index, reach each other in both directions. */
export type Linked = (a: number, b: number) => boolean

/**
 * Connections between candidates. Both directions must be live; a pending candidate counts as linked with
 * all, since its connections may not be told either.
 */
export function linksBetween (
  candidates: readonly Candidate[],
  edges: readonly { from: string, to: string }[]
): Linked {
  const size = candidates.length
  const index = new Map(candidates.map(({ node }, i) => [node.nodeId, i]))
  const directed = new Uint8Array(size * size)
  for (const { from, to } of edges) {
    const [a, b] = [index.get(from), index.get(to)]
    if (a !== undefined && b !== undefined) directed[a * size + b] = 1
  }
  candidates.forEach(({ pending }, i) => {
    if (!pending) return
    for (let j = 0; j < size; j++) directed[i * size + j] = directed[j * size + i] = 1
  })
  return (a, b) => a !== b && directed[a * size + b] === 1 && directed[b * size + a] === 1
}
