import type { Entry, Position, Submission } from './entries.js'
import type { Outgoing } from './messages.js'

/** What happens to the replication of one node. Nodes are named by install id. */
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
  /** What a `feed` was to be sent to this node is on its way, or its link had no room. */
  | { readonly type: 'fed', readonly to: string, readonly ok: boolean }
  /** What was to be found for this node: `base` is the newest of its positions, null when there is none. */
  | {
    readonly type: 'found', readonly to: string
    readonly base: Position | null, readonly entries: readonly Entry[]
  }

/** What is to be done after a step. */
export type Output =
  | { readonly type: 'send', readonly to: string, readonly message: Outgoing }
  /** The same, of which `fed` is to tell whether the link took it. */
  | { readonly type: 'feed', readonly to: string, readonly message: Outgoing }
  /**
   * Find the newest of these positions (newest first) in the store, and the page of entries that follows it.
   * Answer with `found`.
   */
  | { readonly type: 'find', readonly to: string, readonly have: readonly Position[] }
  /** Give a tick within `ms`. */
  | { readonly type: 'wake', readonly ms: number }
  /** Events of this node were dropped between these indices; there is room again. */
  | { readonly type: 'dropped', readonly from: number, readonly to: number, readonly count: number }

/** The replication of one node. */
export interface Replication {
  /** Takes one input. `now`: milliseconds that only rise. */
  step (input: Input, now: number): Output[]
  /** Own events that are not in the log yet. */
  readonly waiting: number
  /** Highest index this node has seen or heard of. */
  readonly highest: number
  /** True when the log here is, as far as is known, the whole of it. */
  readonly inStep: boolean
  /** Messages that were none. */
  readonly garbled: number
}
