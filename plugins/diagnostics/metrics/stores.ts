import { statfs } from 'node:fs/promises'
import { Counter, Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import type { EventTap, LogRing, GossipCounters } from '../../../kernel/index.js'
import type { EventLogView } from '../../event-log/service.js'
import type { Models } from '../../staging/service.js'
import type { Tracing } from '../../tracing/service.js'
import { Rises } from './rises.js'
import type { Group } from './index.js'

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
  const rises = new Rises()
  const staging = stagingMetrics(registry, parts)
  const groups = [
    gossipMetrics(registry, parts, rises),
    ...parts.eventLog === undefined ? [] : [eventLogMetrics(registry, parts.eventLog, rises)],
    ...parts.log === undefined ? [] : [logMetrics(registry, parts.log, rises)],
    ...parts.tracing === undefined ? [] : [tracingMetrics(registry, parts.tracing, rises)]
  ]
  return {
    async sample () {
      for (const sample of groups) sample()
      await staging.sample()
    },
    stop: staging.stop
  }
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

function gossipMetrics (
  registry: Registry, { gossip }: StoreMetricsParts, rises: Rises
): () => void {
  const registers = [registry]
  const queue = new Gauge({
    name: 'svc_telemetry_queue_length', registers, help: 'Readings that wait to be sent to other nodes.'
  })
  const age = new Gauge({
    name: 'svc_telemetry_last_publish_age_seconds', registers, labelNames: [],
    help: 'Since readings last reached another node; not there before they did.'
  })
  const readings = new Counter({
    name: 'svc_telemetry_readings_total', labelNames: ['result'], registers,
    help: 'Readings of this machine by what became of them; offered counts all.'
  })
  const bytes = new Counter({
    name: 'svc_telemetry_published_bytes_total', registers, labelNames: [],
    help: 'Bytes of readings handed to all other nodes together.'
  })
  const failures = new Counter({
    name: 'svc_telemetry_publish_failures_total', registers, labelNames: [], help: 'Publishes that failed.'
  })
  return () => {
    const now = gossip.counters()
    queue.set(now.queueDepth)
    if (now.lastSuccessfulPublishAgeSeconds === null) age.remove()
    else age.set(now.lastSuccessfulPublishAgeSeconds)
    for (const [result, total] of [
      ['offered', now.readingsOffered], ['coalesced', now.readingsCoalesced],
      ['dropped', now.readingsDropped], ['published', now.readingsPublished]
    ] as const) rises.follow(readings, { result }, `gossip ${result}`, total)
    rises.follow(bytes, {}, 'telemetry bytes', now.bytesPublished)
    rises.follow(failures, {}, 'telemetry failures', now.publishFailures)
  }
}

function eventLogMetrics (registry: Registry, eventLog: EventLogView, rises: Rises): () => void {
  const registers = [registry]
  const plain = { labelNames: [] as const, registers }
  const mode = new Gauge({
    name: 'svc_event_log_mode', labelNames: ['mode'], registers,
    help: '1 for the mode the event log is in: normal, counting-only or memory.'
  })
  const bytes = new Gauge({
    name: 'svc_event_log_stored_bytes', ...plain, help: 'Size of the event log on disk.'
  })
  const queue = new Gauge({
    name: 'svc_event_log_queue_length', ...plain, help: 'Events that are not yet on disk.'
  })
  const last = new Gauge({ name: 'svc_event_log_last_index', ...plain, help: 'Index of the newest event.' })
  const counted = new Counter({
    name: 'svc_event_log_counted_total', ...plain, help: 'Events that were counted and not written.'
  })
  const dropped = new Counter({
    name: 'svc_event_log_dropped_total', ...plain, help: 'Events dropped because the disk was too slow.'
  })
  return () => {
    const status = eventLog.status()
    for (const name of ['normal', 'counting-only', 'memory']) {
      mode.set({ mode: name }, status.mode === name ? 1 : 0)
    }
    bytes.set(status.bytes)
    queue.set(status.queued)
    last.set(eventLog.lastIdx)
    rises.follow(counted, {}, 'event log counted', status.counted)
    rises.follow(dropped, {}, 'event log dropped', status.dropped)
  }
}

function logMetrics (
  registry: Registry, log: NonNullable<StoreMetricsParts['log']>, rises: Rises
): () => void {
  const registers = [registry]
  const lines = new Counter({
    name: 'svc_log_lines_total', labelNames: [], registers,
    help: 'Lines of the log, those of runners included.'
  })
  const shipped = new Counter({
    name: 'svc_log_lines_shipped_total', labelNames: ['result'], registers,
    help: 'Lines for logging.ingest_url: sent, and dropped because it did not take them.'
  })
  return () => {
    rises.follow(lines, {}, 'log lines', log.nextSeq - 1)
    const { shipping } = log
    if (shipping === null) return
    rises.follow(shipped, { result: 'sent' }, 'log sent', shipping.sent)
    rises.follow(shipped, { result: 'dropped' }, 'log dropped', shipping.dropped)
  }
}

function tracingMetrics (
  registry: Registry, tracing: NonNullable<StoreMetricsParts['tracing']>, rises: Rises
): () => void {
  const registers = [registry]
  const on = new Gauge({ name: 'svc_tracing_enabled', registers, help: '1 while new requests are traced.' })
  const traces = new Counter({
    name: 'svc_traces_total', labelNames: ['result'], registers,
    help: 'Traces by what became of them; recorded counts all.'
  })
  return () => {
    on.set(tracing.enabled ? 1 : 0)
    const now = tracing.counters()
    for (const [result, total] of [
      ['recorded', now.recorded], ['written', now.written], ['exported', now.exported],
      ['dropped', now.droppedQueue + now.droppedDisk]
    ] as const) rises.follow(traces, { result }, `traces ${result}`, total)
  }
}
