/**
 * Counters since the start, the answer of `GET /v1/diagnostics/telemetry`. A newer reading of a key replaces
 * a waiting one; full queues and large sizes drop readings. At any time `readingsOffered = readingsCoalesced
 * + readingsDropped + readingsPublished + pendingReadings`.
 */
export interface GossipCounters extends Readonly<Record<
  'maxQueueDepth' | 'readingsOffered' | 'readingsCoalesced' | 'readingsDropped' | 'readingsPublished' |
  'publishFailures' | 'noPeerPublishes' | 'bytesPublished', number
>> {
  /** False with SVC_TELEMETRY_DISABLE=1: every count stays 0. */
  readonly enabled: boolean
  readonly transport: 'websocket'
  /** Most keys that may be queued. */
  readonly admissionCapacity: number
  /** Queued keys; there is one queue, so both are the same. */
  readonly pendingReadings: number
  readonly queueDepth: number
  /** Since a publish reached a peer; null before the first. */
  lastSuccessfulPublishAgeSeconds: number | null
}
