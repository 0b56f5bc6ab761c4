const KIB = 1024
const MIB = 1024 * KIB

/** Limits of the capability layer; names contain the unit. */
export const defaultLimits = {
  concurrency: 8,
  queue: 32,
  payloadBytes: MIB,
  timeoutSeconds: 30,
  /** Limits for framed streams: buffer sizes, and the time after which an idle reader is disconnected. */
  streamChunks: 64,
  streamBytes: MIB,
  streamStallMs: 30_000,
  /** Raw media: players stop reading while their buffer is full, so the limits are higher. */
  mediaBytes: 8 * MIB,
  mediaTotalBytes: 64 * MIB,
  mediaStallMs: 15 * 60_000,
  /** How long the response head waits for the first chunk, so that an early failure can set the status. */
  headHoldMs: 1000,
  /** Grace period for an aborted handler before its slot is released. */
  abandonMs: 1000,
  /** Grace period for the terminal frame of an aborted call. */
  graceMs: 5000,
  /** Interval between comments in a silent event stream. */
  keepAliveMs: 10_000,
  sessionCalls: 64,
  sessionBufferBytes: 4 * MIB,
  sessionPingMs: 5000,
  sessionDeadMs: 15_000,
  /** Limits on a call's buffered client chunks. */
  inputChunks: 64,
  inputBytes: MIB,
  /** Limit on concurrent calls to each other node. */
  remoteCalls: 64
}

export type CapabilityLimits = typeof defaultLimits

export const MAX_TIMEOUT_SECONDS = 300
export const MAX_CALL_ID = 128
/** The body limit of the route, larger than the payload limit, so that earlier checks can answer first. */
export const READ_LIMIT_BYTES = 2 * MIB
export const SCHEMA_BYTES = 64 * KIB
export const SCHEMA_DEPTH = 16
