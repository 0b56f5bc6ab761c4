import type { Ballot, Leader, NodeId, CommandId, Receipt, Role } from './types.js'

export interface Follower { readonly role: 'follower' }

export interface PreVoting {
  readonly role: 'pre-vote'
  readonly round: number
  readonly until: number
  /** Live peers that have not answered. */
  readonly waiting: Set<NodeId>
  readonly grants: Set<NodeId>
  /** The master a peer named when it refused. */
  denied: Leader | null
}

export interface Campaigning {
  readonly role: 'campaign'
  readonly term: number
  readonly until: number
  /** Peers that were live when it began. */
  readonly peers: ReadonlySet<NodeId>
  readonly ballots: Map<NodeId, Ballot>
}

export interface Claiming {
  readonly role: 'claim'
  readonly leader: Leader
  readonly until: number
  readonly waiting: Set<NodeId>
  readonly yes: Set<NodeId>
  refused: boolean
}

/** A command that is entered but not held by enough nodes yet. */
export interface Pending {
  readonly receipt: Receipt
  /** Entry that must be held: never below the first of this session. */
  readonly due: number
  /** Nodes that wait for the answer. */
  readonly origins: Set<NodeId>
}

/** A master that slept asks its peers before it acts again. */
export interface Probing {
  readonly nonce: number
  readonly since: number
  askedAt: number
  readonly answers: Set<NodeId>
}

export interface Mastering {
  readonly role: 'master'
  readonly since: number
  /** Number of the `session` entry. */
  readonly startSeq: number
  /** Number of the newest `voters` entry of this session; `startSeq` when there is none. */
  votersSeq: number
  /** Up to where each follower holds the data of this session. */
  readonly acks: Map<NodeId, number>
  readonly pending: Map<CommandId, Pending>
  probe: Probing | null
}

export type Phase = Follower | PreVoting | Campaigning | Claiming | Mastering

/** Which role may come after which. */
export const MOVES: { readonly [R in Role]: readonly Role[] } = {
  follower: ['follower', 'pre-vote', 'campaign'],
  'pre-vote': ['follower', 'campaign'],
  campaign: ['follower', 'campaign', 'claim'],
  claim: ['follower', 'master'],
  master: ['follower']
}

export const FOLLOWER: Follower = { role: 'follower' }
