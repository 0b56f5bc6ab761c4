import type { Send } from './messages.js'
import type { Persist } from './hard-state.js'
import type {
  CommandId, Entry, LogPosition, Leader, NodeId, Outcome, Receipt, StreamEnd, StreamId, Token
} from './types.js'

/**
 * Every effect of the core. Methods return at once; what they queue leaves after the step that called them.
 */
export interface Io {
  /** May lose, delay, repeat and reorder. */
  readonly send: Send
  /** Synchronous: done on disk before any message of the same step leaves. */
  readonly persist: Persist
  /** 0 (inclusive) to 1 (exclusive). Session ids need a source nobody can guess. */
  random (): number
  /** Ends an open stream. Called once for each stream at most. */
  terminal (stream: StreamId, why: StreamEnd): void
  /** The one answer to `command` or `changeVoters`. */
  commandResult (id: CommandId, outcome: Outcome): void
  becameMaster (leader: Leader): void
  /**
   * Another session, another term of the same session, or none. Called before anything of `next` is
   * admitted.
   */
  sessionChanged (next: Leader | null, previous: Leader | null): void
  /** The disk began to refuse votes, or takes them again. A node that cannot vote is not eligible. */
  storageChanged (storing: boolean): void
  /**
   * Someone acts as a master below the term that this node voted in. Once for each term of a session.
   */
  staleRefused (stale: Leader, voted: Token): void
}

/**
 * How data from a master was taken. `gap`: it continues something this node does not hold; `refused`:
 * it breaks the rules of the document; `failed`: the disk does not take it. Nothing changed then.
 */
export type Adoption = 'adopted' | 'gap' | 'refused' | 'failed'

/**
 * The log as the core sees it: entries of one writer, of which it knows the last position and never the
 * contents. In the majority mode entries are on disk when `append` and `adopt` return.
 */
export interface Log {
  last (): LogPosition
  /** The voters as the newest entry held here says, whether acknowledged or not. Empty while unknown. */
  voters (): readonly NodeId[]
  /** Adds an entry as the master; its seq is `last().seq` after it. False when the disk refused. */
  append (entry: Entry): boolean
  /** Where a command was entered; undefined when it is not held here. */
  find (id: CommandId): Receipt | undefined
  /** What a follower lacks that holds this session up to `seq`; all of it when null. */
  body (seq: number | null): unknown
  /** Takes over what `body` made on the master. The core has checked that it is not older. */
  adopt (body: unknown): Adoption
}
