import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { monitorLoop, type LoopMonitor, type LinkReport } from '../../../kernel/index.js'
import { Meters, type MetricsParts, samplesBy, counter, gauge, type Row, type Sample } from './meters.js'
import { requestMetrics } from './requests.js'
import { runnerMetrics } from './runners.js'
import { storeMetrics } from './stores.js'

export type Metrics = ReturnType<typeof startMetrics>

/** Starts the metrics; counters kept by other parts are read at each scrape. */
export function startMetrics (parts: MetricsParts) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS })
  const loop = loopMetrics(registry)
  new Gauge({
    name: 'svc_build_info', help: 'Always 1; the version is in the label.', labelNames: ['version'],
    registers: [registry]
  }).set({ version: parts.version }, 1)
  const found = new Gauge({
    name: 'svc_finding', help: 'Open findings (`svc findings`) that need no authority but read, by code.',
    labelNames: ['code', 'severity'], registers: [registry]
  })
  const meters = new Meters(registry)
  requestMetrics(meters, parts)
  runnerMetrics(meters, parts)
  clusterMetrics(meters, parts)
  storeMetrics(meters, parts)
  return {
    /** The metrics as text; with `open`, the open findings are counted anew by code and severity. */
    async text (open?: readonly { code: string, severity: string }[]): Promise<string> {
      if (open !== undefined) found.reset()
      for (const { code, severity } of open ?? []) found.inc({ code, severity })
      await meters.sample()
      return await registry.metrics()
    },
    stop: () => {
      meters.stop()
      loop.stop()
    }
  }
}

/** Longest delay that a Node timer accepts, in ms. */
const NEVER_MS = 2 ** 31 - 1

/** Replaces prom-client's event loop metrics, whose histogram would wake an idle node every 10 ms. */
function loopMetrics (registry: Registry): LoopMonitor {
  const loop = monitorLoop()
  const gauge = (name: string): Gauge & { collect (): void } =>
    registry.getSingleMetric(`nodejs_eventloop_lag_${name}seconds`) as Gauge & { collect (): void }
  const lag = gauge('')
  const { collect } = lag
  lag.collect = () => {
    collect()
    for (const [name, ms] of Object.entries(loop.read())) gauge(`${name}_`).set(ms / 1000)
    loop.reset()
  }
  return loop
}

export function clusterMetrics (meters: Meters, parts: MetricsParts): void {
  const { session, cluster, tap } = parts
  meters.table(() => parts, TABLE)
  const sessions = meters.counter('svc_cluster_session_changes_total', 'Sessions that this node changed to.')
  const losses = meters.counter('svc_cluster_master_losses_total', 'Times this node lost its master.')
  const elections = meters.counter('svc_cluster_elections_won_total', 'Times this node was elected master.')
  const events = meters.counter('svc_events_total', 'Control events of this node, by kind.', ['kind'])
  let known = { sessionId: session.sessionId, master: session.masterNodeId !== null }
  meters.onStop(session.onChange(() => {
    const now = { sessionId: session.sessionId, master: session.masterNodeId !== null }
    if (now.sessionId !== known.sessionId) sessions.inc()
    if (known.master && !now.master) losses.inc()
    known = now
  }))
  meters.onStop(tap.onDurable(({ kind, payload }) => {
    events.inc({ kind })
    if (kind === 'MasterElected' && payload['masterNodeId'] === cluster.self.nodeId) elections.inc()
  }))
}

const perLink = (
  { inspection }: MetricsParts, of: (link: LinkReport) => Record<'in' | 'out', number>
): Sample[] => [...samplesBy('direction', { in: 0, out: 0 }), ...inspection.links().flatMap((link) =>
  samplesBy('direction', of(link)).map((figure) => ({ ...figure, source: link.installId })))]

const TABLE: readonly Row<MetricsParts>[] = [
  gauge('svc_cluster_nodes', 'Members of the cluster as seen by this node: live or gone.',
    ({ cluster }) => {
      const live = cluster.nodes().filter((node) => node.live).length
      return samplesBy('state', { live, gone: cluster.nodes().length - live })
    }, ['state']),
  gauge('svc_cluster_is_master', '1 while this node is the master.',
    ({ session }) => session.isMaster ? 1 : 0),
  gauge('svc_cluster_master_known', '1 while this node knows a master.',
    ({ session }) => session.masterNodeId === null ? 0 : 1),
  gauge('svc_cluster_links', 'Open links to other nodes.', ({ inspection }) => inspection.links().length),
  gauge('svc_cluster_link_buffered_bytes', 'Bytes queued for other nodes.',
    ({ inspection }) => inspection.links().reduce((sum, { buffered }) => sum + buffered, 0)),
  counter('svc_cluster_link_frames_total', 'Frames over links to other nodes.',
    (parts) => perLink(parts, ({ framesIn, framesOut }) => ({ in: framesIn, out: framesOut })),
    ['direction']),
  counter('svc_cluster_link_bytes_total', 'Bytes over links to other nodes.',
    (parts) => perLink(parts, ({ bytesIn, bytesOut }) => ({ in: bytesIn, out: bytesOut })), ['direction']),
  counter('svc_cluster_messages_dropped_total', 'Messages of other nodes with an unknown shape.',
    ({ inspection }) => inspection.links()
      .map(({ dropped, installId }) => ({ value: dropped, source: installId })))
]
