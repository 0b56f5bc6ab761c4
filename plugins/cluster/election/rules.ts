import type {
  Ballot, Heartbeat, Leader, LogPosition, Message, MessageOf, Mode, NodeId, CommandReceipt, Token
} from './protocol.js'
import type { Timing } from './timing.js'

/** A comparator, as for Array.prototype.sort. */
export type Order<T> = (a: T, b: T) => number

const text: Order<string> = (a, b) => a < b ? -1 : a > b ? 1 : 0

/** Raft's comparison of logs: the term of the last entry, then its sequence number. */
export const byPosition: Order<LogPosition> = (a, b) => a.term - b.term || a.seq - b.seq

/** Compares candidates: eligibility first, then log position, then id. */
export const byBallot: Order<Ballot> = (a, b) => Number(a.eligible) - Number(b.eligible) ||
  byPosition(a, b) || text(a.nodeId, b.nodeId)

/** Facts that decide which of two masters stays: the one with the higher score. */
export interface MasterScore { readonly following: number, readonly age: number, readonly master: NodeId }

/** More followers score higher, then an older session (in steps of `ageStep` ms), then a greater id. */
export function byScore (a: MasterScore, b: MasterScore, ageStep: number): number {
  return a.following - b.following || Math.floor(a.age / ageStep) - Math.floor(b.age / ageStep) ||
    text(a.master, b.master)
}

export function greatest<T> (values: Iterable<T>, order: Order<T>): T | undefined {
  let best: T | undefined
  for (const value of values) if (best === undefined || order(value, best) > 0) best = value
  return best
}

export interface ProbeState {
  readonly mode: Mode
  /** Milliseconds since the probe was first sent. */
  readonly waited: number
  /** Number of live peers; `known` also counts peers that are not live. */
  readonly alive: number
  readonly known: number
}

export interface VoteCount {
  readonly mode: Mode, readonly yes: number, readonly needed: number, readonly refused: boolean
  /** Whether every live peer has answered. */
  readonly complete: boolean
  readonly expired: boolean
}

export interface Reach {
  readonly mode: Mode, readonly reachable: number, readonly needed: number, readonly age: number
  /** Milliseconds for which the master's own disk has refused writes; null while it accepts them. */
  readonly refusing: number | null
  readonly heirs: boolean
}

export interface MasterConflict {
  readonly mode: Mode
  readonly verified: boolean
  readonly mine: MasterScore & Token
  readonly other: MasterScore & Token
  readonly ageStep: number
}

export type VoterRefusal = 'voters_invalid' | 'voters_self' | 'voters_busy'

export interface VoterChange {
  readonly master: NodeId, readonly from: readonly NodeId[], readonly to: readonly NodeId[]
  /** Whether the last change to the voters and this session's first entry have reached enough voters. */
  readonly settled: boolean
}

function voteResult (state: VoteCount): 'won' | 'lost' | 'open' {
  const { mode, yes, needed, refused, complete, expired } = state
  if (mode === 'majority') return yes >= needed ? 'won' : expired || complete ? 'lost' : 'open'
  if (refused) return 'lost'
  return complete || expired ? 'won' : 'open'
}

function mayFollow (mode: Mode, voted: Token, leader: Token): boolean {
  if (leader.term !== voted.term) return leader.term > voted.term
  // A majority elects at most one master per term. In available mode, two halves of a split cluster may elect
  // one each for the same term: follow only the one voted for, so that a term's data has one source.
  return mode === 'majority' || voted.master === leader.master
}

/**
 * Whether a master may continue although no peer answers its probe. In majority mode never: a majority must
 * answer. With quorum 1 only if no peer is live: a live one may have elected another master. Disconnected
 * peers count as gone after `silence`.
 */
function trustsSilence ({ mode, waited, alive, known }: ProbeState, { silence }: Timing): boolean {
  return mode === 'available' && (known === 0 || (alive === 0 && waited > silence))
}

/**
 * In majority mode, a master older than `silence` steps down if it reaches too few voters. It also does so if
 * its disk still refuses writes after the others had time to test theirs; with quorum 1 only if another node
 * can take over.
 */
function keepsMastership ({ mode, reachable, needed, age, refusing, heirs }: Reach, timing: Timing): boolean {
  if (refusing !== null && refusing >= timing.heartbeat / 2 && (heirs || mode === 'majority')) return false
  return mode === 'available' || reachable >= needed || age <= timing.silence
}

function staysMaster ({ mode, verified, mine, other, ageStep }: MasterConflict): boolean {
  if (mode === 'majority') return mine.term >= other.term
  return verified && byScore(mine, other, ageStep) > 0
}

/** Whether the master's own heartbeat shows that it has resigned. */
function hasResigned (leader: Leader, beat: Heartbeat): boolean {
  if (beat.boot !== leader.boot) return beat.boot > leader.boot
  // A late heartbeat, sent before this peer became master, has a lower term or the role `claim`.
  return beat.promised >= leader.term && beat.role !== 'master' && beat.role !== 'claim' &&
    beat.leader?.sid !== leader.sid
}

/** Allows adding or removing one voter, once earlier changes have reached enough voters. */
function mayChangeVoters ({ master, from, to, settled }: VoterChange): 'yes' | VoterRefusal {
  const added = to.filter((id) => !from.includes(id)).length
  const removed = from.filter((id) => !to.includes(id)).length
  if (to.length === 0 || added + removed !== 1 || new Set(to).size !== to.length) return 'voters_invalid'
  // If the master removed itself, it could be the only node with that entry and yet not be electable.
  if (!to.includes(master)) return 'voters_self'
  return settled ? 'yes' : 'voters_busy'
}

/** The decisions of the algorithm as pure functions, so that a test can replace a single one. */
export const RULES = {
  /** Whether a gap between two steps means that this node was paused. */
  stalled: (gap: number, timing: Timing): boolean => gap > timing.stall,
  /** Whether a node that heard from its master `since` ms ago supports no other candidate. */
  sticksToMaster: (since: number, timing: Timing): boolean => since < timing.sticky,
  /** An election starts only when no peer knows a live master, and enough peers agree. */
  mayCampaign: ({ denied, grants, needed }: { denied: boolean, grants: number, needed: number }): boolean =>
    !denied && grants >= needed,
  /** Another node may deny an election only by naming a master other than the asking node. */
  denies: (answer: MessageOf<'pre-vote-answer'>, self: NodeId): boolean =>
    !answer.grant && answer.leader !== null && answer.leader.master !== self,
  ballotOrder: byBallot,
  /** Whether to answer a ballot whose term is over. */
  answersOldBallot: (): boolean => true,
  mayVote: (voted: Token, request: Token): boolean => request.term > voted.term ||
    (request.term === voted.term && request.master === voted.master),
  /** A candidate's log must be at least as up to date as the voter's. */
  upToDate: (candidate: LogPosition, voter: LogPosition): boolean => byPosition(candidate, voter) >= 0,
  /** Only a vote that was written to the disk counts. */
  writeCounts: (persisted: boolean): boolean => persisted,
  voteResult,
  /** A node stops being a candidate when it accepts a master or votes for another node. */
  candidacyStands: (voted: Token, own: Token, acceptedOther: boolean): boolean =>
    !acceptedOther && voted.term === own.term && voted.master === own.master,
  mayFollow,
  /** Whether a refused master gets a nack with the voted term. */
  answersRefused: (): boolean => true,
  /** A log is never replaced by one that is less up to date. */
  mayReplace: (incoming: LogPosition, own: LogPosition): boolean => byPosition(incoming, own) >= 0,
  /** A change is acknowledged when enough nodes have it. */
  heldByEnough: (copies: number, needed: number): boolean => copies >= needed,
  /** Whether a message answers the last probe of a paused master. */
  verifies: (message: Message, nonce: number): boolean =>
    message.kind === 'probe-answer' && message.nonce === nonce,
  mayActAsMaster: (verified: boolean): boolean => verified,
  trustsSilence,
  staysMaster,
  /** Whether a master whose term is too low for a follower may raise it instead of stepping down. */
  mayRaiseTerm: (mode: Mode, verified: boolean): boolean => mode === 'available' && verified,
  keepsMastership,
  hasResigned,
  enteredBefore: (receipt: CommandReceipt | undefined): CommandReceipt | undefined => receipt,
  fitsSession: (commandSid: string, sid: string): boolean => commandSid === sid,
  /** Streams end with their session, but not when only its term rises. */
  sessionEnds: (old: Leader | null, next: Leader | null): boolean => old !== null && old.sid !== next?.sid,
  mayChangeVoters
}
export type Rules = typeof RULES

/** 1: all parts of a split cluster stay available. A majority or more: no acknowledged change is lost. */
export type QuorumSetting = 'majority' | number

export interface Quorum {
  readonly mode: Mode
  /** Minimum number of votes, capped at the number of voters; a majority is always needed. */
  readonly atLeast: number
}

/** Reads `cluster.quorum`. @throws RangeError unless it is `majority`, 1, or more than half of the voters */
export function readQuorum (setting: QuorumSetting, voters: readonly NodeId[]): Quorum {
  if (setting === 1) return { mode: 'available', atLeast: 1 }
  const least = majorityOf(voters.length)
  if (setting === 'majority') return { mode: 'majority', atLeast: 1 }
  if (Number.isInteger(setting) && setting >= least) return { mode: 'majority', atLeast: setting }
  throw new RangeError(`cluster.quorum is ${setting}, but ${voters.length} voters need at least ${least}, ` +
    'so that two halves cannot both decide: set "majority", or 1 to stay available without this guarantee')
}

/** Size of a majority: any two groups of this many voters have a voter in common. */
export function majorityOf (voters: number): number { return Math.floor(voters / 2) + 1 }

/** Number of votes needed. Infinity in majority mode while no voters are known. */
export function votesNeeded (quorum: Quorum, voters: readonly NodeId[]): number {
  if (quorum.mode === 'available') return 1
  const { length } = voters
  return length === 0 ? Infinity : Math.max(majorityOf(length), Math.min(quorum.atLeast, length))
}

/** Number of voters among `nodes`; in available mode every node is a voter. */
export function votesOf (quorum: Quorum, voters: readonly NodeId[], nodes: Iterable<NodeId>): number {
  let n = 0
  for (const id of nodes) if (quorum.mode === 'available' || voters.includes(id)) n++
  return n
}
