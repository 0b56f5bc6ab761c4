const MIB = 1024 * 1024

export const STORE_LIMITS = {
  /** A file is closed at this size, and the next one begins. */
  fileBytes: 64 * MIB,
  /** Above this total size the oldest file is deleted. */
  totalBytes: 256 * MIB,
  /** This many of the newest entries are never deleted. */
  keepEntries: 20_000,
  /** Queued entries are written after this time, ms, or when this many entries or bytes are queued. */
  groupMs: 25,
  groupEntries: 256,
  /** Also the maximum bytes of a transaction. */
  groupBytes: MIB,
  /** Maximum queued entries; more are dropped and counted. */
  queueEntries: 10_000,
  queueBytes: 16 * MIB,
  floorBytes: 2048 * MIB,
  /** Writing resumes when free space stays this far above the floor for this long, ms. */
  headroomBytes: 512 * MIB,
  holdMs: 30_000,
  /** Checks of free space: after this many entries; while writing is off, at this interval, ms. */
  checkEntries: 1024,
  checkMs: 1000,
  readMs: 5000,
  /** Longest time a start or a stop waits for the disk, ms. */
  patienceMs: 10_000
}

export type StoreLimits = Readonly<typeof STORE_LIMITS>

/**
 * Indices are reserved on disk in steps of this size, so that none is reused after a crash before a write:
 * about one wait a second at 10,000 events a second.
 */
export const RESERVE = 16_384
