import { isThere, stagingsOf } from './cluster.js'
import type { StateView } from './cluster.js'

/** How far one node is. */
export interface StagedNode {
  nodeId: string
  status: 'pending' | 'downloading' | 'complete' | 'failed'
  error: string | null
  reason?: string | null
}

/** All nodes, and since when (ms of the wait) those without a sign of life are gone. */
export interface StageWatch { nodes: readonly StagedNode[], goneSince: ReadonlyMap<string, number> }

/** What there is to learn from one look at the state. */
export interface StageLook {
  state: StateView
  modelId: string
  /** Attempt each node showed before it was asked to stage; these are over. */
  attempts: ReadonlyMap<string, string | null>
  /** Since the node was asked, ms. */
  elapsedMs: number
}

/** A node that is gone for so long is given up, ms. */
const GONE_MS = 60_000
/** What a node shows is at most so old, ms; an earlier end that still stands after it counts. */
const STALE_MS = 5000

/** True when nothing more will happen on the node. */
export function isOver ({ status }: StagedNode): boolean {
  return status === 'complete' || status === 'failed'
}

/** How far the nodes are after a look at the state. Pure. */
export function advance ({ nodes, goneSince }: StageWatch, look: StageLook): StageWatch {
  const gone = new Map(nodes.filter((node) => !isOver(node) && !isThere(look.state, node.nodeId))
    .map(({ nodeId }) => [nodeId, goneSince.get(nodeId) ?? look.elapsedMs]))
  return { goneSince: gone, nodes: nodes.map((node) => step(node, gone.get(node.nodeId), look)) }
}

function step (node: StagedNode, goneSince: number | undefined, look: StageLook): StagedNode {
  if (isOver(node)) return node
  if (goneSince !== undefined && look.elapsedMs - goneSince >= GONE_MS) {
    return { ...node, status: 'failed', error: 'the node gives no sign of life; `svc nodes` shows more' }
  }
  const found = stagingsOf(look.state).find((one) =>
    one.nodeId === node.nodeId && one.modelId === look.modelId)
  if (found === undefined) return node
  const { status, error, reason } = found
  const earlier = look.attempts.has(node.nodeId) && look.attempts.get(node.nodeId) === found.attemptId
  if (earlier && status === 'failed') return node
  if (earlier && status === 'complete' && look.elapsedMs < STALE_MS) return node
  return { ...node, status, error: status === 'failed' ? error ?? 'the node gives no reason' : null, reason }
}
