import {
  anyOf, anything, count, fits, flag, listOf, only, orNull, record, schemaOf, span, text, word
} from '../wire.js'
import type { Of, Schema } from '../wire.js'
import type { Ballot, Change, Leader, LogPosition, NodeId, Outcome, Role } from './types.js'

const token = { term: count, master: text }
const leader: Schema<Leader> = record({ ...token, sid: text, boot: count })
const lastEntry: Schema<LogPosition> = record({ term: count, seq: count })
const ballot: Schema<Ballot> = record({
  term: count, seq: count, eligible: flag, weight: schemaOf<number>({ type: 'number' }), nodeId: text
})
const change: Schema<Change> = record({ kind: word('command', 'voters'), payload: anything })
const outcome = anyOf<unknown>(
  record({ ok: only(true), sid: text, term: count, seq: count }), record({ ok: only(false), code: text })
) as Schema<Outcome>

/**
 * The messages of the election by kind, field by field. Their names are those on the wire: `claim` is a vote
 * request, `promised` the term that a node's hard state has its vote in, `fresh` a last log position.
 */
const MESSAGES = {
  /** To every connected peer each `timing.heartbeat`; at once when a node becomes or stops being master. */
  heartbeat: record({
    /** Rises by one with every heartbeat of a boot, so that an old one is known when it arrives late. */
    count,
    boot: count,
    role: word<Role>('follower', 'pre-vote', 'campaign', 'claim', 'master'),
    leader: orNull(leader),
    promised: count,
    fresh: lastEntry,
    /** From a master: the other nodes that follow it. Else none. */
    followers: listOf<NodeId>(text),
    /** From a master: milliseconds since it began. Else 0. */
    age: span,
    /** Whether the sender's disk takes votes. */
    durable: flag
  }),
  /** "May I start an election?" */
  'pre-vote': record({ round: count }),
  'pre-vote-answer': record({ round: count, grant: flag, leader: orNull(leader) }),
  /** Opens the campaign for `term`, or joins it. */
  ballot: record({ term: count, ballot }),
  /** Answer to a ballot whose term is over: the least term worth campaigning above. */
  stale: record({ term: count }),
  /** Vote request: "I have the best ballot: vote for me." */
  claim: record({ leader, fresh: lastEntry }),
  /** A vote. `abstain`: this node's disk takes none. It neither helps nor stands in the way. */
  'claim-answer': record({ sid: text, vote: word('yes', 'no', 'abstain'), promised: count }),
  /** Control data from the master. What is in `body` only the log knows. */
  append: record({ leader, fresh: lastEntry, body: anything }),
  /** "Your append does not fit what I have: send all of it." */
  need: record({ sid: text }),
  /** The sender holds the entries of this session up to `seq`, on its disk where the mode asks for it. */
  ack: record({ sid: text, term: count, seq: count }),
  /** Refusal of a master whose term is below the one of the sender's vote. */
  nack: record({ sid: text, promised: record(token) }),
  /** A master that slept asks whether it still is one. Only an answer with this very nonce counts. */
  probe: record({ nonce: count }),
  'probe-answer': record({ nonce: count, leader: orNull(leader), promised: count }),
  command: record({ id: text, sid: text, change }),
  'command-answer': record({ id: text, sid: text, outcome })
}

export type MessageKind = keyof typeof MESSAGES
export type MessageOf<K extends MessageKind> = { readonly kind: K } & Of<(typeof MESSAGES)[K]>
export type Message = { [K in MessageKind]: MessageOf<K> }[MessageKind]
export type Heartbeat = MessageOf<'heartbeat'>

export type Send = (to: NodeId, message: Message) => void

const schemas = new Map<unknown, Schema<unknown>>(Object.entries(MESSAGES))

/**
 * A message from another node, or null when its kind is unknown here or a field is missing or of the wrong
 * type. Fields that are unknown here are left alone: another version may have added them.
 */
export function readMessage (value: unknown): Message | null {
  if (typeof value !== 'object' || value === null) return null
  const schema = schemas.get((value as { kind?: unknown }).kind)
  return schema !== undefined && fits(schema, value) ? value as Message : null
}
