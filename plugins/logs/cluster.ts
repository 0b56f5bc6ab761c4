import { askMembers, type Clock, type Cluster, type LogRing, type NodeView } from '../../kernel/index.js'
import { refOf, statusOf, type LogRequester } from './ask.js'
import { PAGE_BYTES, PAGE_MS } from './limits.js'
import {
  inOrder, pageOf, readPage, type ClusterPage, type LogPage, type NodeRef, type NodeStatus, type ShownLine
} from './lines.js'
import { pathFor, wantOf, type Query } from './query.js'

export interface ClusterParts {
  ring: LogRing
  self: NodeRef
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

/**
 * The newest matching lines from all nodes. Reports nodes that refuse, miss their deadline or send invalid
 * data, and never throws.
 */
export async function gather (
  parts: ClusterParts, nodes: readonly NodeView[], query: Query, requester: LogRequester
): Promise<ClusterPage> {
  const { ring, self, clock } = parts
  const statuses: NodeStatus[] = []
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
    path: pathFor(query), caller: requester.caller, signal: requester.signal, ms: PAGE_MS, bytes: PAGE_BYTES,
    read: (text, view) => readPage(text, refOf(view))
  })
  await Promise.all(asked.map(async (answer) => {
    const { node, value, error } = await answer
    if (error === null) take(node, value)
    else statuses.push(statusOf(refOf(node), error))
  }))
  return { nodes: statuses.sort((a, b) => a.node < b.node ? -1 : 1), lines }
}
