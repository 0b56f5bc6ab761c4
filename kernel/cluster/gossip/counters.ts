/**
 * The pressure of gossip since the start of this node, the answer of
 * `GET /v1/diagnostics/telemetry`. At any time
 * `readingsOffered = readingsCoalesced + readingsDropped + readingsPublished + pendingReadings`.
 */
export interface GossipCounters {
  /** False with SVC_TELEMETRY_DISABLE=1: nothing is sampled or published, and every count stays 0. */
  enabled: boolean
  /** What carries the readings. */
  transport: string
  /** Most readings that may wait, one for each key. */
  admissionCapacity: number
  /** Readings that wait to be published. */
  pendingReadings: number
  /** Length of the queue now; there is one queue, so it equals `pendingReadings`. */
  queueDepth: number
  /** The longest the queue ever was. */
  maxQueueDepth: number
  readingsOffered: number
  /** Readings replaced by a newer one of the same key while they waited. */
  readingsCoalesced: number
  /** Readings that gave way to others in a full queue, or were too large to be sent. */
  readingsDropped: number
  readingsPublished: number
  /** Publishes that threw; their readings wait for the next one. */
  publishFailures: number
  /** Publishes that reached nobody; their readings wait for the next one. */
  noPeerPublishes: number
  /** Bytes handed to all peers together. */
  bytesPublished: number
  /** Seconds since a publish reached a peer; null when none did yet. */
  lastSuccessfulPublishAgeSeconds: number | null
}
