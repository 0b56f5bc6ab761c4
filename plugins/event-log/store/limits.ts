const MIB = 1024 * 1024

/** Sizes (bytes) and times of the store. */
export const STORE_LIMITS = {
  /** A file is closed at this size, and the next one begun. */
  fileBytes: 64 * MIB,
  /** Above this size of all files together the oldest is deleted, whole. */
  totalBytes: 256 * MIB,
  /** The newest entries that are never deleted. */
  keepEntries: 20_000,
  /** Waiting entries are written after this time, ms, or when there are so many or so many bytes of them. */
  groupMs: 25,
  groupEntries: 256,
  /** Also the most bytes of a transaction. */
  groupBytes: MIB,
  /** Most waiting entries; more are dropped and counted. */
  queueEntries: 10_000,
  queueBytes: 16 * MIB,
  /** Least free space for writing. */
  floorBytes: 2048 * MIB,
  /** Writing resumes when free space stays this far above the floor for this long, ms. */
  headroomBytes: 512 * MIB,
  holdMs: 30_000,
  /** Checks of free space: after this many entries; while writing is off, every this many ms. */
  checkEntries: 1024,
  checkMs: 1000,
  /** A page that takes longer is given up, ms. */
  readMs: 5000,
  /** Longest wait of a start or a stop for the disk, ms. */
  patienceMs: 10_000
}

export type StoreLimits = Readonly<typeof STORE_LIMITS>

/**
 * Indices are reserved in such steps on disk, so that a crash before a write repeats none: about one wait a
 * second at 10,000 events a second.
 */
export const RESERVE = 16_384
