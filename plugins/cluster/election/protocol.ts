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
  /** Boot count of the master. */
  boot: count
})
const positionFields = { term: count, seq: count }
const positionSchema = record(positionFields)
const ballotSchema = record({
  ...positionFields,
  eligible: flag,
  /** Always 0 and not compared; earlier versions require the field. */
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
/** A change of the control data: an application command, or a new list of voters. */
export type Change = Of<typeof changeSchema>
export type Role = 'follower' | 'pre-vote' | 'campaign' | 'claim' | 'master'

/**
 * The messages of the election, with their wire names: `claim` is a vote request, `promised` the term of a
 * node's vote, `fresh` a last log position.
 */
export const MESSAGES = {
  /** Sent to each connected peer every `timing.heartbeat` ms, and at the start and end of a mastership. */
  heartbeat: record({
    /** Increases with every heartbeat of a boot, to detect late ones. */
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
  /** Answer to a ballot of a past term; the campaign needs a term above `term`. */
  stale: record({ term: count }),
  /** Vote request of the node with the best ballot. */
  claim: record({ leader: leaderSchema, fresh: positionSchema }),
  /** `abstain`: the disk refuses the vote, which counts for neither side. */
  'claim-answer': record({ sid: text, vote: oneOf('yes', 'no', 'abstain'), promised: count }),
  /** Control data from the master; only the log reads `body`. */
  append: record({ leader: leaderSchema, fresh: positionSchema, body: anything }),
  /** Requests all entries, because the append left a gap. */
  need: record({ sid: text }),
  /** The sender has the entries of this session up to `seq`; on disk in majority mode. */
  ack: record({ sid: text, term: count, seq: count }),
  /** Refuses a master whose term is below the sender's voted term. */
  nack: record({ sid: text, promised: tokenSchema }),
  /** A master's question after a pause whether it is still master; only an answer with this nonce counts. */
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
 * Parses a message; null for an unknown kind and for missing or mistyped fields. Ignores unknown fields,
 * which another version may send.
 */
export function readMessage (value: unknown): Message | null {
  if (typeof value !== 'object' || value === null) return null
  const schema = schemas.get((value as { kind?: unknown }).kind)
  return schema !== undefined && fits(schema, value) ? value as Message : null
}

export interface HardStateRecord {
  /** Highest term in which this node voted or followed a master. */
  readonly term: number
  /** The candidate that got the vote of that term, or the master that was followed. */
  readonly votedFor: NodeId | null
  readonly boot: number
}

/** An entry of the control data. `session` starts a session, `anoint` raises its term. */
export interface Entry {
  readonly kind: 'session' | 'anoint' | Change['kind']
  readonly id: string
  readonly sid: SessionId
  readonly term: number
  readonly payload: unknown
  /** The node that sent the command. Not part of the data. */
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
  /** The command's session ended; the command may or may not have run. Retry with the same id. */
  'session_changed' |
  /** The command names a session that this node does not lead. */
  'stale_session' |
  'no_answer' |
  'storage_failed' |
  /** The change of voters adds or removes more than one, or is not a list of node ids. */
  'voters_invalid' |
  /** The change removes the master itself, which must resign first. */
  'voters_self' |
  /** An earlier change of voters, or the start of this session, is not on a majority yet. */
  'voters_busy'

export type Outcome =
  ({ readonly ok: true } & CommandReceipt) | { readonly ok: false, readonly code: Refusal }

export type StreamEnd = 'session_changed' | 'no_master'

/** Effects of the core. Methods return immediately; queued effects leave after the step. */
export interface Io {
  /** Messages may be lost, delayed, repeated and reordered. */
  send (to: NodeId, message: Message): void
  /** Writes durably before it returns and before messages of this step leave. False if the disk refused. */
  persist (record: HardStateRecord): boolean
  random (): number
  /** Called at most once per stream. */
  terminal (stream: StreamId, why: StreamEnd): void
  /** Called once for each `command` and `changeVoters`. */
  commandResult (id: CommandId, outcome: Outcome): void
  becameMaster (leader: Leader): void
  /** The session or term changed. Called before any data of `next` is accepted. */
  sessionChanged (next: Leader | null, previous: Leader | null): void
  /** The disk started or stopped refusing votes. A node that cannot vote is not eligible. */
  storageChanged (storing: boolean): void
  /** A master with a term below the voted one was refused. Called once for each session and term. */
  staleRefused (stale: Leader, voted: Token): void
}

/**
 * Result of applying a master's data. `gap`: entries are missing; `refused`: the data breaks the document's
 * rules; `failed`: the disk refused. All three change nothing.
 */
export type ApplyResult = 'adopted' | 'gap' | 'refused' | 'failed'

/**
 * The replicated log, whose contents the core does not read. In majority mode `append` and `adopt` return
 * after the write to disk.
 */
export interface Log {
  last (): LogPosition
  /** Voters by the newest local entry, acknowledged or not. Empty while unknown. */
  voters (): readonly NodeId[]
  /** Adds an entry as the master; its seq is `last().seq` after it. False if the disk refused. */
  append (entry: Entry): boolean
  /** The receipt of a command; undefined if this log does not contain it. */
  find (id: CommandId): CommandReceipt | undefined
  /** The entries after `seq` for a follower in this session; all when null. */
  body (seq: number | null): unknown
  /** Applies a `body` from the master. The core has checked that it is not older. */
  adopt (body: unknown): ApplyResult
}
