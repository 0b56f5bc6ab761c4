import type { LinkLimits } from './types.js'

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
