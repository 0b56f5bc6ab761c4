import type { Clock, Logger } from '../../../kernel/index.js'
import type { Gap, Range } from './gaps.js'
import type { StoreLimits } from './limits.js'
import type { OpenDb } from './sqlite-driver.js'

export interface Snapshot {
  /** Index of the newest event that it has in it. */
  readonly idx: number
  /** Time of the snapshot, ms since 1970. */
  readonly at: number
  /** Session of the snapshot. */
  readonly sid: string
  /** `minute`, or the kind of the event that triggered it. */
  readonly cause: string
  readonly body: string
}

/** An index, or a time, ms since 1970. */
export type IndexOrTime = { readonly idx: number } | { readonly ms: number }

/** Selects a page of the store. Entries come in order of their index. */
export interface StoreQuery {
  /** Only entries with an index above this one. */
  readonly after: number
  /** Only entries up to this index; no upper end when absent. */
  readonly until?: number
  /** At most so many: 1 to 1000. */
  readonly limit: number
  readonly kinds?: readonly string[]
  readonly origins?: readonly string[]
  /** Only events at or after this time, ms since 1970. */
  readonly sinceMs?: number
  /** From the newest back: the last `limit` entries that fit (still in rising order). */
  readonly newest?: boolean
}

export interface StoreStatus {
  /** `counting-only`: events are counted, not written; `memory`: there is no store. */
  readonly mode: 'normal' | 'counting-only' | 'memory'
  /** Events that were counted and not written, since the start. */
  readonly counted: number
  /** Ranges of indices that are not in the store, oldest first, both ends inclusive. */
  readonly gaps: readonly Range[]
  /** Index of the oldest stored entry; null without entries. */
  readonly firstIdx: number | null
  /** Bytes of all files. */
  readonly bytes: number
  /** Entries accepted and not yet on the disk. */
  readonly queued: number
  readonly dropped: number
}

/** A damaged file that was set aside. */
export interface Damaged {
  readonly file: string
  readonly error: string
  /** First index that may have been in it. */
  readonly from: number
}

export interface StoreOptions {
  /** Made when it is missing. Only this process may use it: the lock of the home sees to that. */
  readonly folder: string
  readonly clock: Clock
  readonly logger: Logger
  readonly limits: StoreLimits
  readonly openDb: OpenDb
  /** Free bytes on the volume of the folder; null when nobody knows. */
  readonly freeBytes: () => Promise<number | null>
  /** Exactly these events were counted, or dropped, and not written; writing goes on. */
  readonly onGap: (gap: Gap) => void
  /** The mode has changed; also called at each look at the disk while events are counted. */
  readonly onMode: (status: StoreStatus) => void
  /** A damaged file was set aside; also called while the store opens. */
  readonly onDamaged: (damaged: Damaged) => void
}
