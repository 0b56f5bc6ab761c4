import { delay, systemClock } from '../../../kernel/index.js'
import { isVerbError, type ClusterState, type VerbError } from '../../../kernel/cli/index.js'
import { joinNodes, startOrRemove, type NodeRow } from '../../cluster/cli/nodes.js'

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

export interface Warning { node: string | null, code: string, message: string, remedy: string }

export function clusterWarnings (state: ClusterState, nodes: readonly NodeRow[]): Warning[] {
  const warn = (code: string, message: string, remedy: string): Warning =>
    ({ node: null, code, message, remedy })
  const found: Warning[] = []
  // A removed node sees the others as lost; its health already reports the cause.
  if (state.nodeHealth[state.localNodeId]?.reasons.some(({ code }) => code === 'node_removed')) return found
  const lost = nodes.filter((node) => !node.live)
  if (state.cluster?.quorum === 'lost') {
    const { liveNodes, knownNodes } = state.cluster
    const ids = lost.flatMap(({ installId }) => installId ?? [])
    found.push(warn('no_quorum',
      `Too few nodes are reachable to make decisions: ${liveNodes} of ${knownNodes}.`,
      `Start the missing nodes with \`svc up\`; remove one that will not come back: ` +
      `\`svc members remove ${ids[0] ?? 'ID'}\`.`))
  } else if (state.masterNodeId === null) {
    found.push(warn('no_master', 'No master is known at the moment.',
      'An election takes a few seconds; if it takes longer, `svc doctor` shows the cause.'))
  }
  const split = splitOf(state, nodes)
  if (split !== null) {
    found.push(warn('partition', `The cluster is split: ${split}.`,
      'Fix the network between the nodes; `svc doctor` shows which dial fails and why.'))
  }
  for (const { name, installId, lostForSeconds } of lost) {
    const since = lostForSeconds === null ? 'not seen in this session' : `lost for ${lostForSeconds} s`
    found.push({ node: name, code: 'node_lost', message: `The node gives no sign of life: ${since}.`,
      remedy: startOrRemove(installId ?? 'ID', name) })
  }
  return found
}
