/** Stable identity of a member: the same before and after a restart. `boot` tells the starts apart. */
export type NodeId = string
export type SessionId = string
export type StreamId = string
export type CommandId = string

/** Fencing token. Totally ordered by term, then master; carried by every directive. */
export interface Token {
  readonly term: number
  readonly master: NodeId
}

/**
 * One mastership. `sid` is what clients see and never comes back under another master; `term` may rise
 * within it.
 */
export interface Leader extends Token {
  readonly sid: SessionId
  /** How often the master had started when the session began. */
  readonly boot: number
}

/** Last log position: the term and number of a node's last entry. */
export interface LogPosition {
  readonly term: number
  readonly seq: number
}

/** What a node offers of itself in a campaign. Compared field by field, in this order; the greatest wins. */
export interface Ballot extends LogPosition {
  readonly eligible: boolean
  /** Always 0, and not compared: earlier versions ask for it. */
  readonly weight: number
  readonly nodeId: NodeId
}

/** A node's hard state as it lies on its disk. */
export interface HardStateRecord {
  /** Highest term this node voted in, or followed a master of. */
  readonly term: number
  /** Who got the vote of that term. */
  readonly votedFor: NodeId | null
  /** Number of starts of this node. */
  readonly boot: number
}

/** A change of the control data: one for an application, or of the list of voters. */
export interface Change {
  readonly kind: 'command' | 'voters'
  readonly payload: unknown
}

/**
 * One entry of the control data. `session` is the first of every term, `anoint` raises the term of a
 * session.
 */
export interface Entry {
  readonly kind: 'session' | 'anoint' | Change['kind']
  readonly id: string
  readonly sid: SessionId
  readonly term: number
  readonly payload: unknown
  /** Of a command: the node that asked for it. Not part of the data. */
  readonly from?: NodeId
}

/** Where a command was entered. The same for every retry of its id. */
export interface Receipt extends LogPosition {
  readonly sid: SessionId
  /** What carrying it out gave; only the log knows its meaning. */
  readonly result?: unknown
}

export type Refusal =
  /** No master was known for the election timeout. */
  'no_master' |
  /** The session of the command ended; it may or may not have been carried out. Retry with the same id. */
  'session_changed' |
  /** The command names a session that this node does not lead. */
  'stale_session' |
  /** The master did not answer in time; it may or may not have been carried out. Retry with the same id. */
  'no_answer' |
  /** The master could not write it to its disk. */
  'storage_failed' |
  /** The change of voters adds or removes more than one, or is not a list of node ids. */
  'voters_invalid' |
  /** The master does not take itself out: let it resign first. */
  'voters_self' |
  /** An earlier change of voters, or the start of this session, is not held by a majority yet. */
  'voters_busy'

export type Outcome = ({ readonly ok: true } & Receipt) | { readonly ok: false, readonly code: Refusal }

/** Why a stream ended without its own terminal. */
export type StreamEnd = 'session_changed' | 'no_master'

export type Role = 'follower' | 'pre-vote' | 'campaign' | 'claim' | 'master'
export type Mode = 'available' | 'majority'
