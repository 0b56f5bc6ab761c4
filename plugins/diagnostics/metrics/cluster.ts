import { Counter, Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import type { Cluster, EventTap, Inspection, Session } from '../../../kernel/index.js'
import { Rises } from './rises.js'
import type { Group } from './index.js'

export interface ClusterMetricsParts {
  session: Session
  cluster: Pick<Cluster, 'nodes' | 'self'>
  tap: Pick<EventTap, 'onDurable'>
  inspection: Pick<Inspection, 'links'>
}

/** Nodes, sessions, elections, links and control events. */
export function clusterMetrics (registry: Registry, parts: ClusterMetricsParts): Group {
  const made = makeMetrics(registry)
  const { session, cluster, tap, inspection } = parts
  const rises = new Rises()
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
    sample () {
      const live = cluster.nodes().filter((node) => node.live).length
      made.nodes.set({ state: 'live' }, live)
      made.nodes.set({ state: 'gone' }, cluster.nodes().length - live)
      made.master.set(session.isMaster ? 1 : 0)
      made.known.set(session.masterNodeId === null ? 0 : 1)
      const links = inspection.links()
      made.links.set(links.length)
      made.buffered.set(links.reduce((sum, { buffered }) => sum + buffered, 0))
      for (const { installId, framesIn, framesOut, bytesIn, bytesOut } of links) {
        rises.follow(made.frames, { direction: 'in' }, `framesIn ${installId}`, framesIn)
        rises.follow(made.frames, { direction: 'out' }, `framesOut ${installId}`, framesOut)
        rises.follow(made.bytes, { direction: 'in' }, `bytesIn ${installId}`, bytesIn)
        rises.follow(made.bytes, { direction: 'out' }, `bytesOut ${installId}`, bytesOut)
      }
      const there = new Set(links.map(({ installId }) => installId))
      rises.keep((key) => there.has(key.slice(key.indexOf(' ') + 1)))
    },
    stop () { for (const stop of stops) stop() }
  }
}

function makeMetrics (registry: Registry) {
  const registers = [registry]
  const plain = { labelNames: [] as const, registers }
  return {
    nodes: new Gauge({
      name: 'svc_cluster_nodes', labelNames: ['state'], registers,
      help: 'Members of the cluster as this node sees them: live or gone.'
    }),
    master: new Gauge({ name: 'svc_cluster_is_master', ...plain, help: '1 while this node is the master.' }),
    known: new Gauge({
      name: 'svc_cluster_master_known', ...plain, help: '1 while this node knows a master.'
    }),
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
    }),
    links: new Gauge({ name: 'svc_cluster_links', ...plain, help: 'Open links to other nodes.' }),
    buffered: new Gauge({
      name: 'svc_cluster_link_buffered_bytes', ...plain, help: 'Bytes that wait to be sent to other nodes.'
    }),
    frames: new Counter({
      name: 'svc_cluster_link_frames_total', labelNames: ['direction'], registers,
      help: 'Frames over links to other nodes.'
    }),
    bytes: new Counter({
      name: 'svc_cluster_link_bytes_total', labelNames: ['direction'], registers,
      help: 'Bytes over links to other nodes.'
    })
  }
}
