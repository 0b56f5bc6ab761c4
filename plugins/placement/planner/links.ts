import type { ArrangedNode } from './arrange.js'
import type { Edge, PlanRequest } from './types.js'

/** A link between nodes that share a model is slow below this rate (half of 1 Gbit/s) or above this delay. */
const SLOW_BYTES_PER_SECOND = 60e6
const SLOW_RTT_MS = 5

/**
 * A sentence for each slow link of an arrangement, with the measured values and, if a driver sends weights
 * over the link, the time that the transfer takes. A link without measurements does not count as slow.
 */
export function slowLinks (
  { instanceMeta }: PlanRequest, members: readonly ArrangedNode[], edges: readonly Edge[]
): string[] {
  const star = instanceMeta === 'LlamaRpc'
  const ring = members.length > 2 ? members : members.slice(0, 1)
  const pairs = star
    ? members.slice(1).map((donor) => [members[0]!, donor] as const)
    : ring.map((member, i) => [member, members[(i + 1) % members.length]!] as const)
  return pairs.filter(([a, b]) => a !== b).flatMap(([a, b]) => {
    const ids = [a, b].map(({ candidate }) => candidate.node.nodeId)
    const both = edges.filter(({ from, to }) => from !== to && ids.includes(from) && ids.includes(to))
    const told = (of: (edge: Edge) => number | null | undefined): number[] =>
      both.map(of).filter((value) => typeof value === 'number')
    // Both ends measure; the worse value counts.
    const rate = Math.min(...told(({ bytesPerSecond }) => bytesPerSecond))
    const rtt = Math.max(...told(({ rttMs }) => rttMs))
    if (rate >= SLOW_BYTES_PER_SECOND && rtt <= SLOW_RTT_MS) return []
    const [one, other] = [a.candidate.node.name, b.candidate.node.name]
    const measured = [
      ...rate < SLOW_BYTES_PER_SECOND ? [`${(rate / 1e6).toFixed(1)} MB/s`] : [],
      ...rtt > SLOW_RTT_MS ? [`a round trip of ${Math.round(rtt)} ms for each token`] : []
    ]
    const minutes = star ? b.need.shareBytes / rate / 60 : 0
    const load = minutes >= 1 ? `; sending ${other} its part takes ${Math.ceil(minutes)} min` : ''
    return [`The link between ${one} and ${other} is slow: ${measured.join(', ')}${load}.`]
  })
}
