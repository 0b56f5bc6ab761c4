/** How much the store keeps, and when it does what. Tests use smaller ones. Sizes in bytes. */
export interface StoreLimits {
  /** A file is closed at this size, and the next one begun. */
  readonly fileBytes: number
  /** Above this size of all files together the oldest is deleted, whole. */
  readonly totalBytes: number
  /** So many of the newest entries are kept even so. */
  readonly keepEntries: number
  /**
   * Waiting entries are written after this time, ms, or when there are so many or so many bytes of them; a
   * transaction has no more bytes than that.
   */
  readonly groupMs: number
  readonly groupEntries: number
  readonly groupBytes: number
  /** What may wait; more is dropped and counted. */
  readonly queueEntries: number
  readonly queueBytes: number
  /** Below this free space nothing is written. */
  readonly floorBytes: number
  /** Writing begins again when free space is so much above the floor for so long, ms. */
  readonly headroomBytes: number
  readonly holdMs: number
  /** How often free space is looked at: every so many entries; while nothing is written, every so many ms. */
  readonly checkEntries: number
  readonly checkMs: number
  /** A page that takes longer is given up, ms. */
  readonly readMs: number
  /** How long a start or a stop waits for the disk, ms. */
  readonly patienceMs: number
}

const MIB = 1024 * 1024

export const STORE_LIMITS: StoreLimits = {
  fileBytes: 64 * MIB,
  totalBytes: 256 * MIB,
  keepEntries: 20_000,
  groupMs: 25,
  groupEntries: 256,
  groupBytes: MIB,
  queueEntries: 10_000,
  queueBytes: 16 * MIB,
  floorBytes: 2048 * MIB,
  headroomBytes: 512 * MIB,
  holdMs: 30_000,
  checkEntries: 1024,
  checkMs: 1000,
  readMs: 5000,
  patienceMs: 10_000
}

/**
 * Indices are reserved in such steps, so that none is given twice when the newest were not yet on the disk.
 * Each step waits for the disk once: at 10,000 events a second, about once a second.
 */
export const RESERVE = 16_384
