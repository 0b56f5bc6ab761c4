import {
  anyOf, anything, count, fits, flag, listOf, constant, orNull, record, schemaOf, span, text, oneOf
} from '../wire.js'
import type { Of, Schema } from '../wire.js'

/** Stable identity of a member; `boot` distinguishes its starts. */
export type NodeId = string
export type SessionId = string
export type StreamId = string
export type CommandId = string
export type Mode = 'available' | 'majority'

const tokenFields = { term: count, master: text }
const tokenSchema = record(tokenFields)
const leaderSchema = record({
  ...tokenFields,
  sid: text,
  /** Starts of the master before this session. */
  boot: count
})
const positionFields = { term: count, seq: count }
const positionSchema = record(positionFields)
const ballotSchema = record({
  ...positionFields,
  eligible: flag,
  /** Always 0, and not compared: earlier versions ask for it. */
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
/** One mastership. Clients see `sid`, which is never reused; `term` may rise within it. */
export type Leader = Of<typeof leaderSchema>
/** Last log position: the term and number of a node's last entry. */
export type LogPosition = Of<typeof positionSchema>
/** A node's standing as a candidate. */
export type Ballot = Of<typeof ballotSchema>
/** A change of the control data: one for an application, or of the list of voters. */
export type Change = Of<typeof changeSchema>
export type Role = 'follower' | 'pre-vote' | 'campaign' | 'claim' | 'master'

/**
 * The messages of the election, with their wire names: `claim` is a vote request, `promised` the term of a
 * node's vote, `fresh` a last log position.
 */
export const MESSAGES = {
  /** To every connected peer each `timing.heartbeat`; at once when a node becomes or stops being master. */
  heartbeat: record({
    /** Rises by one with every heartbeat of a boot, so that an old one is known when it arrives late. */
    count,
    boot: count,
    role: oneOf<Role>('follower', 'pre-vote', 'campaign', 'claim', 'master'),
    leader: orNull(leaderSchema),
    promised: count,
    fresh: positionSchema,
    /** From a master: the other nodes that follow it. Else none. */
    followers: listOf<NodeId>(text),
    /** From a master: milliseconds since it began. Else 0. */
    age: span,
    /** Whether the sender's disk takes votes. */
    durable: flag
  }),
  /** "May I start an election?" */
  'pre-vote': record({ round: count }),
  'pre-vote-answer': record({ round: count, grant: flag, leader: orNull(leaderSchema) }),
  /** Opens the campaign for `term`, or joins it. */
  ballot: record({ term: count, ballot: ballotSchema }),
  /** Answer to a ballot whose term is over: the least term worth campaigning above. */
  stale: record({ term: count }),
  /** Vote request: "I have the best ballot: vote for me." */
  claim: record({ leader: leaderSchema, fresh: positionSchema }),
  /** A vote; `abstain`: this node's disk takes none, so it counts for neither side. */
  'claim-answer': record({ sid: text, vote: oneOf('yes', 'no', 'abstain'), promised: count }),
  /** Control data from the master; only the log reads `body`. */
  append: record({ leader: leaderSchema, fresh: positionSchema, body: anything }),
  /** "Your append does not fit what I have: send all of it." */
  need: record({ sid: text }),
  /** The sender holds the entries of this session up to `seq`, on its disk where the mode asks for it. */
  ack: record({ sid: text, term: count, seq: count }),
  /** Refusal of a master whose term is below the one of the sender's vote. */
  nack: record({ sid: text, promised: tokenSchema }),
  /** After a pause a master asks whether it still is one; only an answer with this nonce counts. */
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

/**
 * A message from another node; null for an unknown kind and for missing or mistyped fields. Ignores unknown
 * fields, which another version may have.
 */
export function readMessage (value: unknown): Message | null {
  if (typeof value !== 'object' || value === null) return null
  const schema = schemas.get((value as { kind?: unknown }).kind)
  return schema !== undefined && fits(schema, value) ? value as Message : null
}

/** A node's hard state as it lies on its disk. */
export interface HardStateRecord {
  /** Highest term this node voted in, or followed a master of. */
  readonly term: number
  /** The candidate that got the vote of that term. */
  readonly votedFor: NodeId | null
  readonly boot: number
}

/** An entry of the control data. `session` starts every term, `anoint` raises the term of a session. */
export interface Entry {
  readonly kind: 'session' | 'anoint' | Change['kind']
  readonly id: string
  readonly sid: SessionId
  readonly term: number
  readonly payload: unknown
  /** Of a command: the node that asked for it. Not part of the data. */
  readonly from?: NodeId
}

/** The position of a command's entry, the same for every retry of its id. */
export interface CommandReceipt extends LogPosition {
  readonly sid: SessionId
  readonly result?: unknown
}

export type Refusal =
  /** No master was known for the election timeout. */
  'no_master' |
  /** The session of the command ended; it may or may not have been carried out. Retry with the same id. */
  'session_changed' |
  /** The command names a session that this node does not lead. */
  'stale_session' |
  'no_answer' |
  /** The master could not write it to its disk. */
  'storage_failed' |
  /** The change of voters adds or removes more than one, or is not a list of node ids. */
  'voters_invalid' |
  /** The master does not take itself out: let it resign first. */
  'voters_self' |
  /** An earlier change of voters, or the start of this session, is not held by a majority yet. */
  'voters_busy'

export type Outcome =
  ({ readonly ok: true } & CommandReceipt) | { readonly ok: false, readonly code: Refusal }

/** Why a stream ended without its own terminal. */
export type StreamEnd = 'session_changed' | 'no_master'

/** Effects of the core. Methods return at once; queued effects leave after the step. */
export interface Io {
  /** May lose, delay, repeat and reorder. */
  send (to: NodeId, message: Message): void
  /** Writes durably before it returns and before messages of this step leave. False: refused. */
  persist (record: HardStateRecord): boolean
  random (): number
  /** Ends an open stream. Called once for each stream at most. */
  terminal (stream: StreamId, why: StreamEnd): void
  /** The one answer to `command` or `changeVoters`. */
  commandResult (id: CommandId, outcome: Outcome): void
  becameMaster (leader: Leader): void
  /** Another session or term, or none. Called before any data of `next` is admitted. */
  sessionChanged (next: Leader | null, previous: Leader | null): void
  /** The disk began to refuse votes, or takes them again. A node that cannot vote is not eligible. */
  storageChanged (storing: boolean): void
  /** A master acts below the term that this node voted in. Once for each term of a session. */
  staleRefused (stale: Leader, voted: Token): void
}

/**
 * Result of data from a master: `gap`: entries between are missing; `refused`: breaks the document's rules;
 * `failed`: the disk refused. All three change nothing.
 */
export type ApplyResult = 'adopted' | 'gap' | 'refused' | 'failed'

/**
 * The log of one writer: the core knows its last position, never its contents. In the majority mode `append`
 * and `adopt` return after the write to disk.
 */
export interface Log {
  last (): LogPosition
  /** The voters as the newest entry held here says, whether acknowledged or not. Empty while unknown. */
  voters (): readonly NodeId[]
  /** Adds an entry as the master; its seq is `last().seq` after it. False when the disk refused. */
  append (entry: Entry): boolean
  /** The receipt of a command; undefined if it is not held here. */
  find (id: CommandId): CommandReceipt | undefined
  /** The entries after `seq` for a follower in this session; all when null. */
  body (seq: number | null): unknown
  /** Takes over what `body` made on the master. The core has checked that it is not older. */
  adopt (body: unknown): ApplyResult
}
