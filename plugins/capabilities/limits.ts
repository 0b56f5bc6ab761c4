const KIB = 1024
const MIB = 1024 * KIB

/** Every bound of the capability layer; names carry the unit. */
export interface CapabilityLimits {
  /** Handlers of one capability that run at once. */
  concurrency: number
  /** Calls of one capability that may wait for a slot. */
  queue: number
  payloadBytes: number
  timeoutSeconds: number
  /** Framed streams: what may wait for the reader, and how long it may take nothing. */
  streamChunks: number
  streamBytes: number
  streamStallMs: number
  /** Raw media: players stop reading while their buffer is full, so more waits, for longer. */
  mediaBytes: number
  mediaTotalBytes: number
  mediaStallMs: number
  /** How long the response head waits for the first chunk, so that an early failure has its own status. */
  headHoldMs: number
  /** How long an aborted handler is waited for before its slot is given away. */
  abandonMs: number
  /** How long the terminal frame of an aborted call may wait for the reader. */
  graceMs: number
  /** Silence after which an event stream gets a comment. */
  keepAliveMs: number
  sessionCalls: number
  sessionBufferBytes: number
  sessionPingMs: number
  sessionDeadMs: number
  /** Client chunks of one call that may wait for its handler. */
  inputChunks: number
  inputBytes: number
  /** Calls that one other node serves for this one at once. */
  remoteCalls: number
}

export const defaultLimits: CapabilityLimits = {
  concurrency: 8,
  queue: 32,
  payloadBytes: MIB,
  timeoutSeconds: 30,
  streamChunks: 64,
  streamBytes: MIB,
  streamStallMs: 30_000,
  mediaBytes: 8 * MIB,
  mediaTotalBytes: 64 * MIB,
  mediaStallMs: 15 * 60_000,
  headHoldMs: 1000,
  abandonMs: 1000,
  graceMs: 5000,
  keepAliveMs: 10_000,
  sessionCalls: 64,
  sessionBufferBytes: 4 * MIB,
  sessionPingMs: 5000,
  sessionDeadMs: 15_000,
  inputChunks: 64,
  inputBytes: MIB,
  remoteCalls: 64
}

/** Longest `timeout_seconds` a caller may ask for. */
export const MAX_TIMEOUT_SECONDS = 300
/** Longest `call_id`. */
export const MAX_CALL_ID = 128
/** Bodies are read up to here, so that the guards before the size guard can answer first. */
export const READ_LIMIT_BYTES = 2 * MIB
export const SCHEMA_BYTES = 64 * KIB
export const SCHEMA_DEPTH = 16
