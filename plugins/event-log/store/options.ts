import type { Clock, Logger } from '../../../kernel/index.js'
import type { StoreLimits } from './limits.js'
import type { Gap } from './missing.js'
import type { Damaged } from './segments.js'
import type { OpenDb } from './sqlite.js'
import type { EventStore } from './types.js'

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
  /** A damaged file was set aside; also called while the store opens. */
  readonly onDamaged: (damaged: Damaged) => void
}

/** The log on disk, and what its user has to know at the start. */
export interface DiskStore extends EventStore {
  /** No index up to here may be given again: it may have been, just before a crash. */
  readonly reserved: number
}
