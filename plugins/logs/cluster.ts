import type { Clock, Cluster, LogRing, NodeView } from '../../kernel/index.js'
import { askPage, refOf, wordOf } from './ask.js'
import type { Asker } from './ask.js'
import { inOrder, pageOf } from './lines.js'
import type { ClusterPage, LogPage, NodeRef, NodeWord, ShownLine } from './lines.js'
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
  /** By install id: behind which line, as `since` of GET /v1/logs takes it. */
  positions: Map<string, string>
}

/**
 * What the nodes have of what is wanted: the newest lines of all together. A node that refuses, is late or
 * talks nonsense is named, and holds up nobody for longer than its deadline. Never throws.
 */
export async function gather (
  parts: ClusterParts, nodes: readonly NodeView[], query: Query, asker: Asker
): Promise<Gathered> {
  const words: NodeWord[] = []
  const positions = new Map<string, string>()
  let lines: ShownLine[] = []
  await Promise.all(nodes.map(async (view) => {
    const node = refOf(view)
    try {
      const page = await pageFrom(parts, view, query, asker)
      words.push({ ...node, error: null })
      positions.set(view.installId, `${node.nodeId}:${page.nextSeq - 1}`)
      // Cut after each answer, so that many nodes need no more memory than a few.
      lines = newest([...lines, ...page.lines], query.limit)
    } catch (error) {
      words.push(wordOf(node, error))
    }
  }))
  return { nodes: words.sort((a, b) => a.node < b.node ? -1 : 1), lines, positions }
}

function newest (lines: readonly ShownLine[], limit: number): ShownLine[] {
  const sorted = inOrder(lines)
  return sorted.slice(Math.max(0, sorted.length - limit))
}

async function pageFrom (
  { ring, self, cluster, clock }: ClusterParts, view: NodeView, query: Query, asker: Asker
): Promise<LogPage> {
  if (view.self) return pageOf(ring, self, wantOf(query, self.nodeId))
  const { sinceMs, limit } = query
  const since = sinceMs === null ? undefined : new Date(sinceMs).toISOString()
  // The route takes no 0: one line says where the log is.
  const path = pathFor(query, { since, limit: Math.max(1, limit) })
  const page = await askPage({ cluster, clock }, view, path, asker)
  return limit === 0 ? { ...page, lines: [] } : page
}
