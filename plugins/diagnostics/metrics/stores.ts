import { statfs } from 'node:fs/promises'
import { Counter, Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import type { EventTap, LogRing, GossipCounters } from '../../../kernel/index.js'
import type { EventLogView } from '../../event-log/service.js'
import type { Models } from '../../staging/service.js'
import type { Tracing } from '../../tracing/service.js'
import { by, counter, gauge, sampledMetrics } from './sampled.js'
import type { Group } from './index.js'
import type { Sampled } from './sampled.js'

export interface StoreMetricsParts {
  /** Absolute path of the home. */
  home: string
  tap: Pick<EventTap, 'onDurable'>
  gossip: { counters (): GossipCounters }
  log: Pick<LogRing, 'nextSeq' | 'shipping'> | undefined
  /** Absent where the plugin is off. */
  eventLog: EventLogView | undefined
  models: Pick<Models, 'located'> | undefined
  tracing: Pick<Tracing, 'enabled' | 'counters'> | undefined
}

/** Models on disk, the event log, gossip, log lines and traces. */
export function storeMetrics (registry: Registry, parts: StoreMetricsParts): Group {
  const { gossip, eventLog, log, tracing } = parts
  const staging = stagingMetrics(registry, parts)
  const sampled = [
    sampleOf(registry, GOSSIP, gossip), sampleOf(registry, EVENT_LOG, eventLog),
    sampleOf(registry, LOG, log), sampleOf(registry, TRACING, tracing)
  ]
  return {
    async sample () {
      for (const sample of sampled) sample()
      await staging.sample()
    },
    stop: staging.stop
  }
}

/** The metrics of what may be absent, as its plugin is off. */
function sampleOf<S> (registry: Registry, table: readonly Sampled<S>[], source: S | undefined): () => void {
  if (source === undefined) return () => {}
  const sample = sampledMetrics(registry, table)
  return () => { sample(source) }
}

function stagingMetrics (registry: Registry, { home, tap, models }: StoreMetricsParts): Group {
  const made = makeStaging(registry)
  const size = (value: unknown): number => typeof value === 'number' && value > 0 ? value : 0
  const stop = tap.onDurable(({ kind, payload }) => {
    if (kind === 'DownloadFailed') made.downloads.inc({ result: 'failed' })
    if (kind === 'NodeDownloadProgress') {
      const completed = payload['status'] === 'completed'
      made.downloads.inc({ result: completed ? 'completed' : 'started' })
      if (completed) made.downloaded.inc(size(payload['totalBytes']))
    }
    if (kind === 'StagedModelEvicted' || kind === 'StagingPurged') made.freed.inc(size(payload['freedBytes']))
  })
  return {
    async sample () {
      const copies = (models?.located() ?? []).filter(({ kind }) => kind === 'staged')
      made.copies.set(copies.length)
      made.staged.set(copies.reduce((sum, { card }) => sum + card.totalBytes, 0))
      // A disk that cannot be asked shows no figure rather than an old one.
      const disk = await statfs(home).catch(() => null)
      if (disk === null) made.free.remove()
      else made.free.set(disk.bavail * disk.bsize)
    },
    stop
  }
}

function makeStaging (registry: Registry) {
  const plain = { labelNames: [] as const, registers: [registry] }
  return {
    copies: new Gauge({ name: 'svc_staged_models', ...plain, help: 'Staged copies of models on this node.' }),
    staged: new Gauge({
      name: 'svc_staged_bytes', ...plain, help: 'Size of the staged copies on this node, by their cards.'
    }),
    free: new Gauge({ name: 'svc_home_free_bytes', ...plain, help: 'Free space on the volume of the home.' }),
    downloads: new Counter({
      name: 'svc_downloads_total', labelNames: ['result'], registers: [registry],
      help: 'Transfers of models to this node: started, completed and failed ones.'
    }),
    downloaded: new Counter({
      name: 'svc_downloaded_bytes_total', ...plain, help: 'Size of the models whose transfer was completed.'
    }),
    freed: new Counter({
      name: 'svc_staging_freed_bytes_total', ...plain, help: 'Bytes that evictions and purges gave back.'
    })
  }
}

const GOSSIP: readonly Sampled<StoreMetricsParts['gossip']>[] = [
  gauge('svc_telemetry_queue_length', 'Readings that wait to be sent to other nodes.',
    (gossip) => gossip.counters().queueDepth),
  gauge('svc_telemetry_last_publish_age_seconds',
    'Since readings last reached another node; not there before they did.',
    (gossip) => gossip.counters().lastSuccessfulPublishAgeSeconds),
  counter('svc_telemetry_readings_total',
    'Readings of this machine by what became of them; offered counts all.',
    (gossip) => {
      const now = gossip.counters()
      return by('result', {
        offered: now.readingsOffered, coalesced: now.readingsCoalesced, dropped: now.readingsDropped,
        published: now.readingsPublished
      })
    }, ['result']),
  counter('svc_telemetry_published_bytes_total', 'Bytes of readings handed to all other nodes together.',
    (gossip) => gossip.counters().bytesPublished),
  counter('svc_telemetry_publish_failures_total', 'Publishes that failed.',
    (gossip) => gossip.counters().publishFailures)
]

const EVENT_LOG: readonly Sampled<EventLogView>[] = [
  gauge('svc_event_log_mode', '1 for the mode the event log is in: normal, counting-only or memory.',
    (log) => ['normal', 'counting-only', 'memory'].map((mode) =>
      ({ labels: { mode }, value: log.status().mode === mode ? 1 : 0 })), ['mode']),
  gauge('svc_event_log_stored_bytes', 'Size of the event log on disk.', (log) => log.status().bytes),
  gauge('svc_event_log_queue_length', 'Events that are not yet on disk.', (log) => log.status().queued),
  gauge('svc_event_log_last_index', 'Index of the newest event.', (log) => log.lastIdx),
  counter('svc_event_log_counted_total', 'Events that were counted and not written.',
    (log) => log.status().counted),
  counter('svc_event_log_dropped_total', 'Events dropped because the disk was too slow.',
    (log) => log.status().dropped)
]

const LOG: readonly Sampled<NonNullable<StoreMetricsParts['log']>>[] = [
  counter('svc_log_lines_total', 'Lines of the log, those of runners included.', (log) => log.nextSeq - 1),
  counter('svc_log_lines_shipped_total',
    'Lines for logging.ingest_url: sent, and dropped because it did not take them.',
    ({ shipping }) => shipping === null
      ? null
      : by('result', { sent: shipping.sent, dropped: shipping.dropped }), ['result'])
]

const TRACING: readonly Sampled<NonNullable<StoreMetricsParts['tracing']>>[] = [
  gauge('svc_tracing_enabled', '1 while new requests are traced.', (tracing) => tracing.enabled ? 1 : 0),
  counter('svc_traces_total', 'Traces by what became of them; recorded counts all.',
    (tracing) => {
      const { recorded, written, exported, droppedQueue, droppedDisk } = tracing.counters()
      return by('result', { recorded, written, exported, dropped: droppedQueue + droppedDisk })
    }, ['result'])
]
