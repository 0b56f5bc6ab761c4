import { askMembers, MemberFault } from '../../kernel/index.js'
import { PAGE_BYTES, PAGE_MS } from './limits.js'
import {
  inOrder, pageOf, readPage, type ClusterPage, type LogPage, type NodeRef, type ShownLine
} from './lines.js'
import { pathFor, wantOf, type Query } from './query.js'
import type { Caller, Clock, Cluster, LogRing, NodeView } from '../../kernel/index.js'

export interface ClusterParts {
  ring: LogRing
  self: NodeRef
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

const refOf = ({ nodeId, name }: NodeView): NodeRef => ({ nodeId, node: name })

/**
 * The newest matching lines from all nodes. Reports nodes that refuse, miss their deadline or send invalid
 * data, and never throws.
 */
export async function gather (
  parts: ClusterParts, nodes: readonly NodeView[], query: Query,
  { caller, signal }: { readonly caller: Caller, readonly signal: AbortSignal }
): Promise<ClusterPage> {
  const { ring, self, clock } = parts
  const statuses: ClusterPage['nodes'] = []
  let lines: ShownLine[] = []
  const take = (view: NodeView, page: LogPage): void => {
    statuses.push({ ...refOf(view), error: null })
    // Truncate the lines after each response, so that memory does not grow with the number of nodes.
    lines = inOrder([...lines, ...page.lines]).slice(-query.limit)
  }
  for (const view of nodes.filter((node) => node.self)) {
    take(view, pageOf(ring, self, wantOf(query, self.nodeId)))
  }
  const others = nodes.filter((node) => !node.self)
  const asked = askMembers({ cluster: parts.cluster, clock }, others, {
    path: pathFor(query), caller, signal, ms: PAGE_MS, bytes: PAGE_BYTES,
    read: (text, view) => readPage(text, refOf(view))
  })
  await Promise.all(asked.map(async (answer) => {
    const { node, value, error } = await answer
    if (error === null) return take(node, value)
    const { reason, message } = error
    const text = error instanceof MemberFault ? `It ${message}.` : message
    statuses.push({ ...refOf(node), error: { reason, message: text } })
  }))
  return { nodes: statuses.sort((a, b) => a.node < b.node ? -1 : 1), lines }
}
