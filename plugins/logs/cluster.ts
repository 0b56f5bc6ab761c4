import { askMembers } from '../../kernel/index.js'
import type { Clock, Cluster, LogRing, NodeView } from '../../kernel/index.js'
import { refOf, wordOf } from './ask.js'
import type { LogRequester } from './ask.js'
import { PAGE_BYTES, PAGE_MS } from './limits.js'
import { inOrder, pageOf, readPage } from './lines.js'
import type { ClusterPage, LogPage, NodeRef, NodeStatus, ShownLine } from './lines.js'
import { pathFor, wantOf } from './query.js'
import type { Query } from './query.js'

export interface ClusterParts {
  ring: LogRing
  self: NodeRef
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

/** A page, and where each node that answered goes on. */
export interface Gathered extends ClusterPage {
  positions: Map<string, string>
}

/**
 * The newest wanted lines of all nodes. Names nodes that refuse, are late or send invalid data, each within
 * its deadline. Never throws.
 */
export async function gather (
  parts: ClusterParts, nodes: readonly NodeView[], query: Query, asker: LogRequester
): Promise<Gathered> {
  const { ring, self, clock } = parts
  const words: NodeStatus[] = []
  const positions = new Map<string, string>()
  let lines: ShownLine[] = []
  const take = (view: NodeView, page: LogPage): void => {
    words.push({ ...refOf(view), error: null })
    positions.set(view.installId, `${view.nodeId}:${page.nextSeq - 1}`)
    // Cut after each answer, so that many nodes need no more memory than a few.
    if (query.limit > 0) lines = newest([...lines, ...page.lines], query.limit)
  }
  for (const view of nodes.filter((node) => node.self)) {
    take(view, pageOf(ring, self, wantOf(query, self.nodeId)))
  }
  const others = nodes.filter((node) => !node.self)
  const asked = askMembers({ cluster: parts.cluster, clock }, others, {
    path: pagePath(query), caller: asker.caller, signal: asker.signal, ms: PAGE_MS, bytes: PAGE_BYTES,
    read: (text, view) => readPage(text, refOf(view))
  })
  await Promise.all(asked.map(async (answer) => {
    const { node, value, error } = await answer
    if (error === null) take(node, value)
    else words.push(wordOf(refOf(node), error))
  }))
  return { nodes: words.sort((a, b) => a.node < b.node ? -1 : 1), lines, positions }
}

function newest (lines: readonly ShownLine[], limit: number): ShownLine[] {
  const sorted = inOrder(lines)
  return sorted.slice(Math.max(0, sorted.length - limit))
}

/** Where another node is asked for a page. The route takes no 0: one line says where the log is. */
function pagePath (query: Query): string {
  const { sinceMs, limit } = query
  const since = sinceMs === null ? undefined : new Date(sinceMs).toISOString()
  return pathFor(query, { since, limit: Math.max(1, limit) })
}
