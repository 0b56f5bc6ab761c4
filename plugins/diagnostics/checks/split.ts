import { delay, systemClock } from '../../../kernel/index.js'
import { isVerbError, type ClusterState, type VerbError } from '../../../kernel/cli/index.js'
import { joinNodes, type NodeRow } from '../../cluster/cli/nodes.js'

/** Seconds for which other nodes may keep reporting their links to a crashed node. */
const LINK_SECONDS = 5

/** Which live nodes disagree about a link or node; null if none. A node lost by all others has crashed. */
export function splitOf ({ topology, localNodeId }: ClusterState, nodes: readonly NodeRow[]): string | null {
  const linksOf = topology?.connections ?? {}
  const name = (id: string): string => nodes.find(({ nodeId }) => nodeId === id)?.name ?? id
  const live = (topology?.nodes ?? []).filter((id) => linksOf[id] !== undefined)
  for (const [i, a] of live.entries()) {
    const apart = live.slice(i + 1).find((b) => linksOf[a]![b] === undefined && linksOf[b]![a] === undefined)
    if (apart !== undefined) return `${name(a)} and ${name(apart)} cannot reach each other`
    const missed = nodes.find(({ nodeId, lostForSeconds }) => nodeId !== null &&
      (lostForSeconds ?? 0) > LINK_SECONDS && linksOf[a]![nodeId] !== undefined)
    if (missed !== undefined) {
      return `${name(localNodeId)} misses ${name(missed.nodeId!)}, which ${name(a)} reaches`
    }
  }
  return null
}

/** Pause before the state is read again; longer than the default of `cluster.election_timeout_ms`. */
const SPLIT_MS = 3500

/** Reads the state; if it shows a split, reads it again later, since new members may not be linked yet. */
export async function settledState<T extends ClusterState | VerbError> (
  read: () => Promise<T>, signal?: AbortSignal
): Promise<T> {
  const state = await read()
  if (isVerbError(state) || splitOf(state, joinNodes(state, null)) === null) return state
  await delay(systemClock, SPLIT_MS, signal)
  return await read()
}
