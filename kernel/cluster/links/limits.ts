export type { MemberRequest, MemberResponse } from '../../api/services.js'

/** Sizes in bytes, times in milliseconds. */
export interface LinkLimits {
  /** Largest frame. */
  frameBytes: number
  /** Documents and channels that may wait for credit together; channels get half of it. */
  bulkBufferedBytes: number
  /** Bytes in the socket's own buffer that close a link. */
  bufferedBytes: number
  /** Documents and channels on their way that the other end has not given credit for. */
  windowBytes: number
  /** How much of documents and channels one peer gets credit for; beyond it, it waits. */
  bytesPerSecond: number
  burstBytes: number
  framesPerSecond: number
  burstFrames: number
  /** For the WebSocket handshake and both hellos together. */
  helloMs: number
  /** For TCP and TLS to one address. */
  dialMs: number
  /** Between pings; a link on which nothing comes while three were sent is closed. */
  pingMs: number
  backoffMinMs: number
  backoffMaxMs: number
  /** Back-off before a member that broke the protocol is linked again: the first, and the longest. */
  violationMinMs: number
  violationMaxMs: number
  /** How long a closed link may take to say so before it is cut. */
  closeMs: number
  /** Connections of keys that are no members', at once, while a join token is open. */
  strangers: number
  /** How long such a connection may live. */
  strangerMs: number
  joinBodyBytes: number
  connections: number
  /** Default of MemberRequest.timeoutMs. */
  requestHeadMs: number
  /** Connections for requests to one member. */
  requestSockets: number
}

const KiB = 1024
const MiB = 1024 * KiB

/** What links are held to when nothing else is asked for. */
export const defaultLimits: LinkLimits = {
  frameBytes: MiB,
  bulkBufferedBytes: MiB,
  bufferedBytes: 4 * MiB,
  windowBytes: 2 * MiB,
  bytesPerSecond: 16 * MiB,
  burstBytes: 32 * MiB,
  framesPerSecond: 2000,
  burstFrames: 4000,
  helloMs: 5000,
  dialMs: 3000,
  pingMs: 2000,
  backoffMinMs: 250,
  backoffMaxMs: 5000,
  violationMinMs: 1000,
  violationMaxMs: 60_000,
  closeMs: 1000,
  strangers: 16,
  strangerMs: 40_000,
  joinBodyBytes: 16 * KiB,
  connections: 1024,
  requestHeadMs: 120_000,
  requestSockets: 256
}
