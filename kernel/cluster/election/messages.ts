import type {
  Ballot, Change, CommandId, Freshness, Leader, NodeId, Outcome, Role, SessionId, Token
} from './types.js'

/**
 * Sent to every connected peer each `timing.heartbeat`, and at once when a node becomes or stops being
 * master.
 */
export interface Heartbeat {
  readonly kind: 'heartbeat'
  /** Rises by one with every heartbeat of a boot, so that an old one is known when it arrives late. */
  readonly count: number
  readonly boot: number
  readonly role: Role
  readonly leader: Leader | null
  /** Term of the sender's promise. */
  readonly promised: number
  readonly fresh: Freshness
  /** From a master: the other nodes that follow it. Else none. */
  readonly followers: readonly NodeId[]
  /** From a master: milliseconds since it began. Else 0. */
  readonly age: number
  /** Whether the sender's disk takes promises. */
  readonly durable: boolean
}

/** "May I start an election?" */
export interface PreVote { readonly kind: 'pre-vote', readonly round: number }
export interface PreVoteAnswer {
  readonly kind: 'pre-vote-answer'
  readonly round: number
  readonly grant: boolean
  readonly leader: Leader | null
}

/** Opens the campaign for `term`, or joins it. */
export interface CampaignBallot { readonly kind: 'ballot', readonly term: number, readonly ballot: Ballot }

/** Answer to a ballot whose term is over: the least term worth campaigning above. */
export interface StaleBallot { readonly kind: 'stale', readonly term: number }

/** "I have the best ballot: promise yourself to me." */
export interface Claim { readonly kind: 'claim', readonly leader: Leader, readonly fresh: Freshness }
export interface ClaimAnswer {
  readonly kind: 'claim-answer'
  readonly sid: SessionId
  /** `abstain`: this node's disk takes no promise. It neither helps nor stands in the way. */
  readonly vote: 'yes' | 'no' | 'abstain'
  readonly promised: number
}

/** Control data from the master. What is in `body` only the ledger knows. */
export interface Append {
  readonly kind: 'append'
  readonly leader: Leader
  readonly fresh: Freshness
  readonly body: unknown
}
/** "Your append does not fit what I have: send all of it." */
export interface Need { readonly kind: 'need', readonly sid: SessionId }
/** The sender holds the entries of this session up to `seq`, on its disk where the mode asks for it. */
export interface Ack {
  readonly kind: 'ack'
  readonly sid: SessionId
  readonly term: number
  readonly seq: number
}
/** Refusal of a master whose token is below the sender's promise. */
export interface Nack { readonly kind: 'nack', readonly sid: SessionId, readonly promised: Token }

/** A master that slept asks whether it still is one. Only an answer with this very nonce counts. */
export interface Probe { readonly kind: 'probe', readonly nonce: number }
export interface ProbeAnswer {
  readonly kind: 'probe-answer'
  readonly nonce: number
  readonly leader: Leader | null
  readonly promised: number
}

export interface Command {
  readonly kind: 'command'
  readonly id: CommandId
  readonly sid: SessionId
  readonly change: Change
}
export interface CommandAnswer {
  readonly kind: 'command-answer'
  readonly id: CommandId
  readonly sid: SessionId
  readonly outcome: Outcome
}

export type Message = Heartbeat | PreVote | PreVoteAnswer | CampaignBallot | StaleBallot | Claim |
  ClaimAnswer | Append | Need | Ack | Nack | Probe | ProbeAnswer | Command | CommandAnswer

export type MessageKind = Message['kind']
export type MessageOf<K extends MessageKind> = Extract<Message, { kind: K }>

export type Send = (to: NodeId, message: Message) => void
