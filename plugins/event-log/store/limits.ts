const MIB = 1024 * 1024

/** How much the store keeps, and when it does what. Sizes in bytes. */
export const STORE_LIMITS = {
  /** A file is closed at this size, and the next one begun. */
  fileBytes: 64 * MIB,
  /** Above this size of all files together the oldest is deleted, whole. */
  totalBytes: 256 * MIB,
  /** So many of the newest entries are kept even so. */
  keepEntries: 20_000,
  /** Waiting entries are written after this time, ms, or when there are so many or so many bytes of them. */
  groupMs: 25,
  groupEntries: 256,
  /** Also the most bytes of a transaction. */
  groupBytes: MIB,
  /** What may wait; more is dropped and counted. */
  queueEntries: 10_000,
  queueBytes: 16 * MIB,
  /** Below this free space nothing is written. */
  floorBytes: 2048 * MIB,
  /** Writing begins again when free space is so much above the floor for so long, ms. */
  headroomBytes: 512 * MIB,
  holdMs: 30_000,
  /** How often free space is looked at: every so many entries; while nothing is written, every so many ms. */
  checkEntries: 1024,
  checkMs: 1000,
  /** A page that takes longer is given up, ms. */
  readMs: 5000,
  /** How long a start or a stop waits for the disk, ms. */
  patienceMs: 10_000
}

/** Tests use smaller ones. */
export type StoreLimits = Readonly<typeof STORE_LIMITS>

/**
 * Indices are reserved in such steps, so that none is given twice when the newest were not yet on the disk.
 * Each step waits for the disk once: at 10,000 events a second, about once a second.
 */
export const RESERVE = 16_384
