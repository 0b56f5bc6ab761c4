import { Counter } from 'prom-client'
import type { Registry } from 'prom-client'
import type { Cluster, EventTap, Inspection, LinkReport, Session } from '../../../kernel/index.js'
import { by, counter, gauge, sampledMetrics } from './sampled.js'
import type { Group } from './index.js'
import type { Figure, Sampled } from './sampled.js'

export interface ClusterMetricsParts {
  session: Session
  cluster: Pick<Cluster, 'nodes' | 'self'>
  tap: Pick<EventTap, 'onDurable'>
  inspection: Pick<Inspection, 'links'>
}

/** Nodes, sessions, elections, links and control events. */
export function clusterMetrics (registry: Registry, parts: ClusterMetricsParts): Group {
  const made = makeMetrics(registry)
  const { session, cluster, tap } = parts
  const sample = sampledMetrics(registry, TABLE)
  let known = { sessionId: session.sessionId, master: session.masterNodeId !== null }
  const stops = [
    session.onChange(() => {
      const now = { sessionId: session.sessionId, master: session.masterNodeId !== null }
      if (now.sessionId !== known.sessionId) made.sessions.inc()
      if (known.master && !now.master) made.losses.inc()
      known = now
    }),
    tap.onDurable(({ kind, payload }) => {
      made.events.inc({ kind })
      if (kind === 'MasterElected' && payload['masterNodeId'] === cluster.self.nodeId) made.elections.inc()
    })
  ]
  return {
    sample: () => { sample(parts) },
    stop () { for (const stop of stops) stop() }
  }
}

/** Totals of all links to other nodes, by direction. */
const perLink = (
  { inspection }: ClusterMetricsParts, of: (link: LinkReport) => Record<'in' | 'out', number>
): Figure[] => inspection.links().flatMap((link) =>
  by('direction', of(link)).map((figure) => ({ ...figure, source: link.installId })))

const TABLE: readonly Sampled<ClusterMetricsParts>[] = [
  gauge('svc_cluster_nodes', 'Members of the cluster as this node sees them: live or gone.',
    ({ cluster }) => {
      const live = cluster.nodes().filter((node) => node.live).length
      return by('state', { live, gone: cluster.nodes().length - live })
    }, ['state']),
  gauge('svc_cluster_is_master', '1 while this node is the master.',
    ({ session }) => session.isMaster ? 1 : 0),
  gauge('svc_cluster_master_known', '1 while this node knows a master.',
    ({ session }) => session.masterNodeId === null ? 0 : 1),
  gauge('svc_cluster_links', 'Open links to other nodes.', ({ inspection }) => inspection.links().length),
  gauge('svc_cluster_link_buffered_bytes', 'Bytes that wait to be sent to other nodes.',
    ({ inspection }) => inspection.links().reduce((sum, { buffered }) => sum + buffered, 0)),
  counter('svc_cluster_link_frames_total', 'Frames over links to other nodes.',
    (parts) => perLink(parts, ({ framesIn, framesOut }) => ({ in: framesIn, out: framesOut })),
    ['direction']),
  counter('svc_cluster_link_bytes_total', 'Bytes over links to other nodes.',
    (parts) => perLink(parts, ({ bytesIn, bytesOut }) => ({ in: bytesIn, out: bytesOut })), ['direction'])
]

/** Metrics that are counted as things happen. */
function makeMetrics (registry: Registry) {
  const registers = [registry]
  const plain = { labelNames: [] as const, registers }
  return {
    sessions: new Counter({
      name: 'svc_cluster_session_changes_total', ...plain, help: 'Sessions that this node went over to.'
    }),
    losses: new Counter({
      name: 'svc_cluster_master_losses_total', ...plain, help: 'Times this node lost its master.'
    }),
    elections: new Counter({
      name: 'svc_cluster_elections_won_total', ...plain, help: 'Times this node was elected master.'
    }),
    events: new Counter({
      name: 'svc_events_total', labelNames: ['kind'], registers,
      help: 'Control events that this node told, by kind.'
    })
  }
}
