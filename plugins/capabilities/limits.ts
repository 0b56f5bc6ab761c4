const KIB = 1024
const MIB = 1024 * KIB

/** Limits of the capability layer; names contain the unit. */
export interface CapabilityLimits {
  concurrency: number
  queue: number
  payloadBytes: number
  timeoutSeconds: number
  /** Limits for framed streams: buffer sizes, and the time after which an idle reader is disconnected. */
  streamChunks: number
  streamBytes: number
  streamStallMs: number
  /** Raw media: players stop reading while their buffer is full, so the limits are higher. */
  mediaBytes: number
  mediaTotalBytes: number
  mediaStallMs: number
  /** How long the response head waits for the first chunk, so that an early failure can set the status. */
  headHoldMs: number
  /** Grace period for an aborted handler before its slot is released. */
  abandonMs: number
  /** Grace period for the terminal frame of an aborted call. */
  graceMs: number
  /** Interval between comments in a silent event stream. */
  keepAliveMs: number
  sessionCalls: number
  sessionBufferBytes: number
  sessionPingMs: number
  sessionDeadMs: number
  /** Limits on a call's buffered client chunks. */
  inputChunks: number
  inputBytes: number
  /** Limit on concurrent calls to each other node. */
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

export const MAX_TIMEOUT_SECONDS = 300
export const MAX_CALL_ID = 128
/** The body limit of the route, larger than the payload limit, so that earlier checks can answer first. */
export const READ_LIMIT_BYTES = 2 * MIB
export const SCHEMA_BYTES = 64 * KIB
export const SCHEMA_DEPTH = 16
