import type { Clock, Logger } from '../../../kernel/index.js'
import type { Gap, Range } from './gaps.js'
import type { OpenDb } from './sqlite-driver.js'

export interface Snapshot {
  /** Index of the newest event in the snapshot. */
  readonly idx: number
  /** Time of the snapshot, ms since 1970. */
  readonly at: number
  readonly sid: string
  /** The kind of the event that triggered the snapshot, or `minute`, `session` or `start`. */
  readonly cause: string
  readonly body: string
}

export type IndexOrTime = { readonly idx: number } | { readonly ms: number }

/** Selects a page of stored entries, in index order. */
export interface StoreQuery {
  /** Only entries with an index above this one. */
  readonly after: number
  /** Only entries up to this index; no upper bound if absent. */
  readonly until?: number
  /** Maximum entries: 1 to 1000. */
  readonly limit: number
  readonly kinds?: readonly string[]
  readonly origins?: readonly string[]
  /** Only events at or after this time, ms since 1970. */
  readonly sinceMs?: number
  /** True for the last `limit` matching entries, still in rising index order. */
  readonly newest?: boolean
}

export interface StoreStatus {
  /** `counting-only`: events are counted, not written; `memory`: there is no store. */
  readonly mode: 'normal' | 'counting-only' | 'memory'
  /** Events counted but not written since startup. */
  readonly counted: number
  /** Ranges of indices that are not in the store, oldest first, both ends inclusive. */
  readonly gaps: readonly Range[]
  /** Index of the oldest stored entry, or null. */
  readonly firstIdx: number | null
  readonly bytes: number
  /** Accepted entries that are not on disk yet. */
  readonly queued: number
  readonly dropped: number
}

export interface Damaged {
  readonly file: string
  readonly error: string
  /** Entries from this index on may have been in the file. */
  readonly from: number
}

export interface StoreOptions {
  /** Folder of the log, created if missing. The home's lock ensures that only this process uses it. */
  readonly folder: string
  readonly clock: Clock
  readonly logger: Logger
  readonly limits: StoreLimits
  readonly openDb: OpenDb
  /** Free bytes on the volume of the folder; null if unknown. */
  readonly freeBytes: () => Promise<number | null>
  /** Called when events have been counted or dropped instead of written; later events are written again. */
  readonly onGap: (gap: Gap) => void
  /** Called when the mode changes, and at each disk check while events are only counted. */
  readonly onMode: (status: StoreStatus) => void
  /** Called when a damaged file has been set aside, possibly while the store opens. */
  readonly onDamaged: (damaged: Damaged) => void
}

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

/** Indices reserved at a time, so that none repeats after a crash: once a second at 10,000 events/s. */
export const RESERVE = 16_384
