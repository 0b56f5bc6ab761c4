/** How much the store keeps, and when it does what. Tests use smaller ones. Sizes in bytes. */
export interface StoreLimits {
  /** A segment is closed at this size. */
  readonly segmentBytes: number
  /** Above this size of all segments the newest entries move to a new one, and the rest to archives. */
  readonly ringBytes: number
  /** Entries that stay then. */
  readonly keepEntries: number
  /** Most bytes of segments that wait to be packed; beyond it the oldest go without. */
  readonly waitingBytes: number
  /** Most archives, and most bytes of them; the oldest go. */
  readonly archiveFiles: number
  readonly archiveBytes: number
  /** Archives are packed no faster than this, bytes a second. */
  readonly archiveRate: number
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
  segmentBytes: 64 * MIB,
  ringBytes: 256 * MIB,
  keepEntries: 20_000,
  waitingBytes: 512 * MIB,
  archiveFiles: 5,
  archiveBytes: 1024 * MIB,
  archiveRate: 16 * MIB,
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

/** Most entries in one answer of the store. */
export const PAGE_ROWS = 1000

/**
 * Indices are set aside in such steps, so that none is given twice when the newest were not yet on the
 * disk.
 */
export const RESERVE = 1024
