const KiB = 1024
const MiB = 1024 * KiB

/** Limits of links. Sizes in bytes, times in milliseconds. */
export const defaultLimits = {
  /** Maximum bytes of a frame; a larger one closes the link. */
  frameBytes: MiB,
  /** Maximum bytes of documents and channel messages that wait for credit; channels may use half of this. */
  bulkBufferedBytes: MiB,
  /** A link closes when its socket buffers more bytes than this. */
  bufferedBytes: 4 * MiB,
  /** Maximum bytes of documents and channel messages that are sent but not yet credited by the receiver. */
  windowBytes: 2 * MiB,
  /** Bytes per second for which one peer gets credit for documents and channel messages. */
  bytesPerSecond: 16 * MiB,
  burstBytes: 32 * MiB,
  framesPerSecond: 2000,
  burstFrames: 4000,
  /** Time limit for the WebSocket handshake and both hellos together. */
  helloMs: 5000,
  /** Time limit for connecting to one address, TCP and TLS together. */
  dialMs: 3000,
  /** Ping interval; a link closes after three pings without any incoming frame. */
  pingMs: 2000,
  backoffMinMs: 250,
  backoffMaxMs: 5000,
  /** First and longest back-off before a member that broke the protocol may link again. */
  violationMinMs: 1000,
  violationMaxMs: 60_000,
  /** Time limit for the close handshake, after which the connection is destroyed. */
  closeMs: 1000,
  /** Maximum concurrent connections of non-members while a join token is open. */
  strangers: 16,
  /** Time limit of a non-member's connection, after which it is closed. */
  strangerMs: 40_000,
  joinBodyBytes: 16 * KiB,
  connections: 1024,
  /** Default for MemberRequest.timeoutMs. */
  requestHeadMs: 120_000,
  requestSockets: 256,
  /** Idle connections close after this time, well before the other end's KEEP_ALIVE_MS. */
  idleMs: 5000
}
export type LinkLimits = typeof defaultLimits
