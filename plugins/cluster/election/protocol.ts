import {
  anyOf, anything, count, fits, flag, listOf, constant, orNull, record, schemaOf, span, text, oneOf
} from '../wire.js'
import type { Of, Schema } from '../wire.js'

/** Stable id of a member, the same after a restart; `boot` in messages counts its starts. */
export type NodeId = string
export const nodeIds = listOf<NodeId>(text)
export type SessionId = string
export type StreamId = string
export type CommandId = string
export type Mode = 'available' | 'majority'

const tokenFields = { term: count, master: text }
const tokenSchema = record(tokenFields)
const leaderSchema = record({
  ...tokenFields,
  sid: text,
  /** Boot count of the master. */
  boot: count
})
const positionFields = { term: count, seq: count }
const positionSchema = record(positionFields)
const ballotSchema = record({
  ...positionFields,
  eligible: flag,
  /** Ignored and always 0, but earlier releases reject a ballot without it. */
  weight: schemaOf<number>({ type: 'number' }),
  nodeId: text
})
const changeSchema = record({ kind: oneOf('command', 'voters'), payload: anything })
const outcomeSchema = anyOf<unknown>(
  record({ ok: constant(true), sid: text, term: count, seq: count }),
  record({ ok: constant(false), code: text })
) as Schema<Outcome>

/** Fencing token. Totally ordered by term, then master; carried by every directive. */
export type Token = Of<typeof tokenSchema>
/** One mastership. Clients see `sid`, which is never reused; `term` may rise within the session. */
export type Leader = Of<typeof leaderSchema>
/** Last log position: the term and number of a node's last entry. */
export type LogPosition = Of<typeof positionSchema>
export type Ballot = Of<typeof ballotSchema>
/** A change to the control data: an application command, or a new list of voters. */
export type Change = Of<typeof changeSchema>
export type Role = 'follower' | 'pre-vote' | 'campaign' | 'claim' | 'master'

/**
 * The election's messages under their wire names. `claim` is a vote request, `promised` the term of the
 * sender's vote, `fresh` the position of the sender's last entry.
 */
export const MESSAGES = {
  /** Sent to each peer every `timing.heartbeat` ms, and when a node becomes master or steps down. */
  heartbeat: record({
    /** Increases with every heartbeat since the sender's start, so that receivers detect reordering. */
    count,
    boot: count,
    role: oneOf<Role>('follower', 'pre-vote', 'campaign', 'claim', 'master'),
    leader: orNull(leaderSchema),
    promised: count,
    fresh: positionSchema,
    /** The master's followers; empty on other nodes. */
    followers: listOf<NodeId>(text),
    /** Milliseconds since this node became master; 0 on other nodes. */
    age: span,
    durable: flag
  }),
  /** Asks whether the peer would support an election. */
  'pre-vote': record({ round: count }),
  'pre-vote-answer': record({ round: count, grant: flag, leader: orNull(leaderSchema) }),
  /** Opens the campaign for `term`, or joins it. */
  ballot: record({ term: count, ballot: ballotSchema }),
  /** Rejects a ballot for a term that is over; the next campaign needs a term above `term`. */
  stale: record({ term: count }),
  /** Vote request from the node with the best ballot. */
  claim: record({ leader: leaderSchema, fresh: positionSchema }),
  /** `abstain`: the voter's disk refuses the write, so the vote counts neither as yes nor as no. */
  'claim-answer': record({ sid: text, vote: oneOf('yes', 'no', 'abstain'), promised: count }),
  /** Control data from the master; the core passes `body` to the log unread. */
  append: record({ leader: leaderSchema, fresh: positionSchema, body: anything }),
  /** Requests all entries, because the append left a gap. */
  need: record({ sid: text }),
  /** The sender has this session's entries up to `seq`; in majority mode they are on its disk. */
  ack: record({ sid: text, term: count, seq: count }),
  /** Refuses a master whose term is below the sender's voted term. */
  nack: record({ sid: text, promised: tokenSchema }),
  /** After a pause, a master asks whether it is still master; an answer must repeat this nonce. */
  probe: record({ nonce: count }),
  'probe-answer': record({ nonce: count, leader: orNull(leaderSchema), promised: count }),
  command: record({ id: text, sid: text, change: changeSchema }),
  'command-answer': record({ id: text, sid: text, outcome: outcomeSchema })
}

export type MessageKind = keyof typeof MESSAGES
export type MessageOf<K extends MessageKind> = { readonly kind: K } & Of<(typeof MESSAGES)[K]>
export type Message = { [K in MessageKind]: MessageOf<K> }[MessageKind]
export type Heartbeat = MessageOf<'heartbeat'>

const schemas = new Map<unknown, Schema<unknown>>(Object.entries(MESSAGES))

/** Parses a message; null for an unknown kind or wrong fields. Ignores unknown fields of other versions. */
export function readMessage (value: unknown): Message | null {
  if (typeof value !== 'object' || value === null) return null
  const schema = schemas.get((value as { kind?: unknown }).kind)
  return schema !== undefined && fits(schema, value) ? value as Message : null
}

export interface HardStateRecord {
  /** Highest term in which this node voted or followed a master. */
  readonly term: number
  /** The node that got this node's vote in that term, or the master that it followed. */
  readonly votedFor: NodeId | null
  readonly boot: number
}

/** An entry of the control data. `session` starts a session, `anoint` raises its term. */
export interface Entry {
  readonly kind: 'session' | 'anoint' | Change['kind'], readonly id: string, readonly sid: SessionId
  readonly term: number, readonly payload: unknown
  /** The node that sent the command; not stored or replicated with the entry. */
  readonly from?: NodeId
}

/** The position of a command's entry, the same for every retry of its id. */
export interface CommandReceipt extends LogPosition { readonly sid: SessionId, readonly result?: unknown }

export type Refusal =
  /** No master was known for the election timeout. */
  'no_master' |
  /** The command's session ended; the command may or may not have run. Retry with the same id. */
  'session_changed' |
  /** The command names a session that this node does not lead. */
  'stale_session' |
  'no_answer' |
  'storage_failed' |
  /** The change adds or removes more than one voter, or is not a list of node ids. */
  'voters_invalid' |
  /** The change removes the master itself, which must resign first. */
  'voters_self' |
  /** An earlier change to the voters, or this session's first entry, has not reached a majority yet. */
  'voters_busy'

export type Outcome =
  ({ readonly ok: true } & CommandReceipt) | { readonly ok: false, readonly code: Refusal }

export type StreamEnd = 'session_changed' | 'no_master'

/** Callbacks of the election core. They must return immediately; queued messages leave after the step. */
export interface Io {
  /** Messages may be lost, delayed, repeated and reordered. */
  send (to: NodeId, message: Message): void
  /** Writes durably before it returns and before this step's messages leave. False if the disk refused. */
  persist (record: HardStateRecord): boolean
  random (): number
  /** Called at most once per stream. */
  terminal (stream: StreamId, why: StreamEnd): void
  /** Called once for each `command` and `changeVoters`. */
  commandResult (id: CommandId, outcome: Outcome): void
  becameMaster (leader: Leader): void
  /** The session or term changed. Called before the new master's data is applied. */
  sessionChanged (next: Leader | null, previous: Leader | null): void
  /** The disk started or stopped refusing votes. A node that cannot vote is not eligible. */
  storageChanged (storing: boolean): void
  /** A master with a term below the voted one was refused. Called once for each session and term. */
  staleRefused (stale: Leader, voted: Token): void
}

/**
 * Result of applying a master's data. `gap`: earlier entries are missing; `refused`: the data is invalid;
 * `failed`: the disk refused the write. In these three cases nothing changes.
 */
export type ApplyResult = 'adopted' | 'gap' | 'refused' | 'failed'

/** The replicated log. In majority mode `append` and `adopt` return after the write to disk. */
export interface Log {
  last (): LogPosition
  /** Voters according to the newest local entry, even if it is not acknowledged. Empty while unknown. */
  voters (): readonly NodeId[]
  /** Appends an entry as master; `last().seq` is then the entry's number. False if the disk refused. */
  append (entry: Entry): boolean
  /** The receipt of a command; undefined if this log does not contain it. */
  find (id: CommandId): CommandReceipt | undefined
  /** The message body with the entries after `seq`, or with all entries if `seq` is null. */
  body (seq: number | null): unknown
  /** Applies a `body` from the master, which is at least as new as this log: the core has checked that. */
  adopt (body: unknown): ApplyResult
}
