import type { Clock } from '../../api/clock.js'
import type { Logger } from '../../api/plugin.js'
import type { Write } from '../documents/kv-doc.js'
import type { NodeId } from '../election/protocol.js'

/** What the master made of a command entry. */
export interface Executed { readonly writes: readonly Write[], readonly result: unknown }

/** Where the snapshot lies. Synchronous: `write` is durable when it returns, and throws when it is not. */
export interface SnapshotStore {
  /** The text of the last write; undefined before the first. */
  read (): string | undefined
  write (text: string): void
}

export interface ControlOptions {
  /** `<home>/state/control.json`; null: memory only. */
  readonly path: string | null
  /** Takes the place of the file at `path`. */
  readonly store?: SnapshotStore
  /**
   * The majority mode: an entry is on disk before `append` and `adopt` return. Else the disk is at most 5 s
   * behind.
   */
  readonly durable: boolean
  /**
   * On the master only: runs a command entry. Its writes go into the document, its result into the receipt.
   * Throwing is a defect: nothing is written and the result is `{ error: { code: 'internal', message } }`.
   */
  execute (payload: unknown, read: (key: string) => unknown, from?: string): Executed
  /** The contents of a new session's document out of those of the old one. */
  seed (previous: ReadonlyMap<string, unknown>): ReadonlyMap<string, unknown>
  readonly clock: Clock
  readonly log: Logger
  /** The voters before any entry; empty on a node that joins. */
  readonly founders: readonly NodeId[]
}
