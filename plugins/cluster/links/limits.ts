const KiB = 1024
const MiB = 1024 * KiB

/** What links are held to. Sizes in bytes, times in milliseconds. */
export const defaultLimits = {
  /** Largest frame. */
  frameBytes: MiB,
  /** Documents and channels that may wait for credit together; channels get half of it. */
  bulkBufferedBytes: MiB,
  /** Bytes in the socket's own buffer that close a link. */
  bufferedBytes: 4 * MiB,
  /** Documents and channels on their way that the other end has not given credit for. */
  windowBytes: 2 * MiB,
  /** How much of documents and channels one peer gets credit for; beyond it, it waits. */
  bytesPerSecond: 16 * MiB,
  burstBytes: 32 * MiB,
  framesPerSecond: 2000,
  burstFrames: 4000,
  /** For the WebSocket handshake and both hellos together. */
  helloMs: 5000,
  /** For TCP and TLS to one address. */
  dialMs: 3000,
  /** Between pings; a link on which nothing comes while three were sent is closed. */
  pingMs: 2000,
  backoffMinMs: 250,
  backoffMaxMs: 5000,
  /** Back-off before a member that broke the protocol is linked again: the first, and the longest. */
  violationMinMs: 1000,
  violationMaxMs: 60_000,
  /** How long a closed link may take to say so before it is cut. */
  closeMs: 1000,
  /** Connections of keys that are no members', at once, while a join token is open. */
  strangers: 16,
  /** How long such a connection may live. */
  strangerMs: 40_000,
  joinBodyBytes: 16 * KiB,
  connections: 1024,
  /** Default of MemberRequest.timeoutMs. */
  requestHeadMs: 120_000,
  /** Connections for requests to one member. */
  requestSockets: 256,
  /** Idle ones of these are closed after this time: long before the other end does (KEEP_ALIVE_MS). */
  idleMs: 5000
}
export type LinkLimits = typeof defaultLimits
