import { statfs } from 'node:fs/promises'
import type { EventLogView } from '../../event-log/service.js'
import { samplesBy, counter, gauge, type Meters, type MetricsParts, type Row } from './meters.js'

export function storeMetrics (meters: Meters, parts: MetricsParts): void {
  meters.table(() => parts, STAGED)
  countTransfers(meters, parts.tap)
  meters.table(() => parts.gossip, GOSSIP)
  meters.table(() => parts.eventLog, EVENT_LOG)
  meters.table(() => parts.log, LOG)
  meters.table(() => parts.ship, SHIPPING)
  meters.table(() => parts.tracing, TRACING)
}

const sizeOf = (value: unknown): number => typeof value === 'number' && value > 0 ? value : 0

function countTransfers (meters: Meters, tap: MetricsParts['tap']): void {
  const downloads = meters.counter('svc_downloads_total',
    'Transfers of models to this node: started, completed and failed ones.', ['result'])
  const downloaded = meters.counter('svc_downloaded_bytes_total',
    'Size of the completely transferred models.')
  const freed = meters.counter('svc_staging_freed_bytes_total', 'Bytes freed by evictions and purges.')
  for (const result of ['started', 'completed', 'failed']) downloads.inc({ result }, 0)
  meters.onStop(tap.onDurable(({ kind, payload }) => {
    if (kind === 'DownloadFailed') downloads.inc({ result: 'failed' })
    if (kind === 'NodeDownloadProgress') {
      const completed = payload['status'] === 'completed'
      downloads.inc({ result: completed ? 'completed' : 'started' })
      if (completed) downloaded.inc(sizeOf(payload['totalBytes']))
    }
    if (kind === 'StagedModelEvicted' || kind === 'StagingPurged') freed.inc(sizeOf(payload['freedBytes']))
  }))
}

const stagedBytes = ({ models }: MetricsParts): number[] => (models?.located() ?? [])
  .filter(({ kind }) => kind === 'staged').map(({ card }) => card.totalBytes)

const STAGED: readonly Row<MetricsParts>[] = [
  gauge('svc_staged_models', 'Staged copies of models on this node.', (parts) => stagedBytes(parts).length),
  gauge('svc_staged_bytes', 'Size of the staged copies on this node, by their cards.',
    (parts) => stagedBytes(parts).reduce((sum, bytes) => sum + bytes, 0)),
  // If the disk cannot be read, the metric has no value instead of an outdated one.
  gauge('svc_home_free_bytes', 'Free space on the volume of the home.',
    async ({ home }) => await statfs(home).then(({ bavail, bsize }) => bavail * bsize, () => null))
]

const GOSSIP: readonly Row<MetricsParts['gossip']>[] = [
  gauge('svc_telemetry_queue_length', 'Readings queued for other nodes.',
    (gossip) => gossip.counters().queueDepth),
  gauge('svc_telemetry_last_publish_age_seconds',
    'Since readings last reached another node; absent before that.',
    (gossip) => gossip.counters().lastSuccessfulPublishAgeSeconds),
  counter('svc_telemetry_readings_total',
    'Readings of this machine by result; offered counts all.',
    (gossip) => {
      const now = gossip.counters()
      return samplesBy('result', {
        offered: now.readingsOffered, coalesced: now.readingsCoalesced, dropped: now.readingsDropped,
        published: now.readingsPublished
      })
    }, ['result']),
  counter('svc_telemetry_published_bytes_total', 'Bytes of readings sent to all other nodes together.',
    (gossip) => gossip.counters().bytesPublished),
  counter('svc_telemetry_publish_failures_total', 'Failed publishes.',
    (gossip) => gossip.counters().publishFailures)
]

const EVENT_LOG: readonly Row<EventLogView>[] = [
  gauge('svc_event_log_mode', '1 for the current mode of the event log: normal, counting-only or memory.',
    (log) => ['normal', 'counting-only', 'memory'].map((mode) =>
      ({ labels: { mode }, value: log.status().mode === mode ? 1 : 0 })), ['mode']),
  gauge('svc_event_log_stored_bytes', 'Size of the event log on disk.', (log) => log.status().bytes),
  gauge('svc_event_log_queue_length', 'Events that are not yet on disk.', (log) => log.status().queued),
  gauge('svc_event_log_last_index', 'Index of the newest event.', (log) => log.lastIdx),
  counter('svc_event_log_counted_total', 'Events that were counted but not written.',
    (log) => log.status().counted),
  counter('svc_event_log_dropped_total', 'Events dropped because the disk was too slow.',
    (log) => log.status().dropped)
]

const LOG: readonly Row<NonNullable<MetricsParts['log']>>[] = [
  counter('svc_log_lines_total', 'Lines of the log, including those of runners.', (log) => log.nextSeq - 1)
]

const SHIPPING: readonly Row<NonNullable<MetricsParts['ship']>>[] = [
  counter('svc_log_lines_shipped_total',
    'Lines for logging.ingest_url: sent, and dropped because it did not accept them.',
    ({ shipping }) => samplesBy('result', { sent: shipping?.sent ?? 0, dropped: shipping?.dropped ?? 0 }),
    ['result'])
]

const TRACING: readonly Row<NonNullable<MetricsParts['tracing']>>[] = [
  gauge('svc_tracing_enabled', '1 while new requests are traced.', (tracing) => tracing.enabled ? 1 : 0),
  counter('svc_traces_total', 'Traces by result; recorded counts all.',
    (tracing) => {
      const { recorded, written, exported, droppedQueue, droppedDisk } = tracing.counters()
      return samplesBy('result', { recorded, written, exported, dropped: droppedQueue + droppedDisk })
    }, ['result'])
]
