/**
 * Counters since the node started, as in `GET /v1/diagnostics/telemetry`. A new reading replaces a queued
 * one with the same key; readings are dropped if the queue is full or they are too large. At any time
 * `readingsOffered = readingsCoalesced + readingsDropped + readingsPublished + pendingReadings`.
 */
export interface GossipCounters extends Readonly<Record<
  'maxQueueDepth' | 'readingsOffered' | 'readingsCoalesced' | 'readingsDropped' | 'readingsPublished' |
  'publishFailures' | 'noPeerPublishes' | 'bytesPublished', number
>> {
  /** False with SVC_TELEMETRY_DISABLE=1, in which case every counter stays 0. */
  readonly enabled: boolean
  readonly transport: 'websocket'
  /** Maximum number of queued keys. */
  readonly admissionCapacity: number
  /** Queued keys. `queueDepth` has the same value, since there is only one queue. */
  readonly pendingReadings: number
  readonly queueDepth: number
  /** Seconds since a publish last reached a peer; null before the first. */
  lastSuccessfulPublishAgeSeconds: number | null
}
