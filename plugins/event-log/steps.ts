import type { Entry, Position, Submission } from './entries.js'
import type { Outgoing } from './messages.js'

/** Inputs of the replication. Nodes are named by install id. */
export type Input =
  | { readonly type: 'local', readonly submission: Submission }
  | { readonly type: 'message', readonly from: string, readonly message: unknown }
  | { readonly type: 'peerUp' | 'peerDown', readonly peer: string }
  /** The session this node is in. `master` is null while none is known. */
  | {
    readonly type: 'session', readonly sid: string, readonly isMaster: boolean
    readonly master: string | null
  }
  | { readonly type: 'tick' }
  /** The result of a `feed`: the link took the message (`ok`), or had no room. */
  | { readonly type: 'fed', readonly to: string, readonly ok: boolean }
  /** The result of a `find`: `base` is the newest position that the store has, null when it has none. */
  | {
    readonly type: 'found', readonly to: string
    readonly base: Position | null, readonly entries: readonly Entry[]
  }

/** What the caller has to do after a step. */
export type Output =
  | { readonly type: 'send', readonly to: string, readonly message: Outgoing }
  /** Send it, and answer with `fed`, which says whether the link took it. */
  | { readonly type: 'feed', readonly to: string, readonly message: Outgoing }
  /**
   * Find the newest of these positions (newest first) in the store, and the page of entries that follows it.
   * Answer with `found`.
   */
  | { readonly type: 'find', readonly to: string, readonly have: readonly Position[] }
  /** Call `step` with a tick within `ms`. */
  | { readonly type: 'wake', readonly ms: number }
  /** So many events of this node were dropped between these indices; now there is room again. */
  | { readonly type: 'dropped', readonly from: number, readonly to: number, readonly count: number }

/** The replication of one node. */
export interface Replication {
  /** Takes one input. `now`: milliseconds that only rise. */
  step (input: Input, now: number): Output[]
  /** Events of this node that are not in the log yet. */
  readonly waiting: number
  /** Highest index in the log or in any message. */
  readonly highest: number
  /** True when this log is complete, as far as is known. */
  readonly inStep: boolean
  /** Received messages that were malformed. */
  readonly garbled: number
}
