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

/** A page of lines, and the position in each node's log at which to resume. */
export interface Gathered extends ClusterPage {
  positions: Map<string, string>
}

/**
 * The newest matching lines from all nodes. Reports nodes that refuse, miss their deadline or send invalid
 * data, and never throws.
 */
export async function gather (
  parts: ClusterParts, nodes: readonly NodeView[], query: Query, requester: LogRequester
): Promise<Gathered> {
  const { ring, self, clock } = parts
  const statuses: NodeStatus[] = []
  const positions = new Map<string, string>()
  let lines: ShownLine[] = []
  const take = (view: NodeView, page: LogPage): void => {
    statuses.push({ ...refOf(view), error: null })
    positions.set(view.installId, `${view.nodeId}:${page.nextSeq - 1}`)
    // Truncate the lines after each response, so that memory does not grow with the number of nodes.
    if (query.limit > 0) lines = newest([...lines, ...page.lines], query.limit)
  }
  for (const view of nodes.filter((node) => node.self)) {
    take(view, pageOf(ring, self, wantOf(query, self.nodeId)))
  }
  const others = nodes.filter((node) => !node.self)
  const asked = askMembers({ cluster: parts.cluster, clock }, others, {
    path: pagePath(query), caller: requester.caller, signal: requester.signal, ms: PAGE_MS, bytes: PAGE_BYTES,
    read: (text, view) => readPage(text, refOf(view))
  })
  await Promise.all(asked.map(async (answer) => {
    const { node, value, error } = await answer
    if (error === null) take(node, value)
    else statuses.push(statusOf(refOf(node), error))
  }))
  return { nodes: statuses.sort((a, b) => a.node < b.node ? -1 : 1), lines, positions }
}

function newest (lines: readonly ShownLine[], limit: number): ShownLine[] {
  const sorted = inOrder(lines)
  return sorted.slice(Math.max(0, sorted.length - limit))
}

/** Request at least one line, because the route rejects a limit of 0. */
function pagePath (query: Query): string {
  const { sinceMs, limit } = query
  const since = sinceMs === null ? undefined : new Date(sinceMs).toISOString()
  return pathFor(query, { since, limit: Math.max(1, limit) })
}
