const MIB = 1024 * 1024

export const STORE_LIMITS = {
  /** Size at which a file is closed and the next one begins. */
  fileBytes: 64 * MIB,
  /** Total size above which the oldest file is deleted. */
  totalBytes: 256 * MIB,
  /** This many of the newest entries are never deleted. */
  keepEntries: 20_000,
  /** Queued entries are written after `groupMs`, or when `groupEntries` or `groupBytes` are queued. */
  groupMs: 25,
  groupEntries: 256,
  /** Maximum bytes of a group, which is written in one transaction. */
  groupBytes: MIB,
  /** Maximum queued entries; more are dropped and counted. */
  queueEntries: 10_000,
  queueBytes: 16 * MIB,
  floorBytes: 2048 * MIB,
  /** Writing resumes once free space has been `headroomBytes` above `floorBytes` for `holdMs`. */
  headroomBytes: 512 * MIB,
  holdMs: 30_000,
  /** Free space is checked after every `checkEntries` entries, or every `checkMs` while writing is off. */
  checkEntries: 1024,
  checkMs: 1000,
  readMs: 5000,
  /** Maximum time in ms for which a start or a stop waits for the disk. */
  patienceMs: 10_000
}

export type StoreLimits = Readonly<typeof STORE_LIMITS>

/**
 * Number of indices reserved on disk at a time, so that none is assigned again after a crash. Writing waits
 * for a reservation about once a second at 10,000 events/s.
 */
export const RESERVE = 16_384
