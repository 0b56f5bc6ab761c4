import type {
  Ballot, Heartbeat, Leader, LogPosition, Message, MessageOf, Mode, NodeId, CommandReceipt, Token
} from './protocol.js'
import type { Timing } from './timing.js'

/** A comparator, as for Array.prototype.sort. */
export type Order<T> = (a: T, b: T) => number

const text: Order<string> = (a, b) => a < b ? -1 : a > b ? 1 : 0

/** Raft's comparison of logs: the term of the last entry, then its sequence number. */
export const byPosition: Order<LogPosition> = (a, b) => a.term - b.term || a.seq - b.seq

/** Compares eligibility, then log position, then id. */
export const byBallot: Order<Ballot> = (a, b) => Number(a.eligible) - Number(b.eligible) ||
  byPosition(a, b) || text(a.nodeId, b.nodeId)

/** Of two masters that meet, the one with the higher score stays. */
export interface MasterScore {
  readonly following: number
  readonly age: number
  readonly master: NodeId
}

/** More followers win, then the older session (in steps of `ageStep` ms), then the id. */
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
  /** Milliseconds since the probe began. */
  readonly waited: number
  /** Number of live peers, and of all known peers. */
  readonly alive: number
  readonly known: number
}

export interface VoteCount {
  readonly mode: Mode
  readonly yes: number
  readonly needed: number
  readonly refused: boolean
  /** Every live peer answered. */
  readonly complete: boolean
  readonly expired: boolean
}

export interface Reach {
  readonly mode: Mode
  readonly reachable: number
  readonly needed: number
  readonly age: number
  /** Milliseconds for which its own disk has refused writes; null while it accepts them. */
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
  readonly master: NodeId
  readonly from: readonly NodeId[]
  readonly to: readonly NodeId[]
  /** Enough voters hold the last change of voters and the start of this session. */
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
  // A majority elects at most one master per term. In available mode two halves may each elect one: a node
  // follows only the one it voted for, so that its data of a term comes from one master.
  return mode === 'majority' || voted.master === leader.master
}

/**
 * Whether a master may continue without answers to its probe. In majority mode it probes until a majority
 * answers, or steps down. With quorum 1 a live peer must answer first, because it may have elected another
 * master; disconnected peers count as gone after `silence`.
 */
function trustsSilence ({ mode, waited, alive, known }: ProbeState, { silence }: Timing): boolean {
  return mode === 'available' && (known === 0 || (alive === 0 && waited > silence))
}

/**
 * A master steps down if it reaches too few voters for too long, or if its disk still refuses writes after
 * the other nodes had time to test theirs. With quorum 1, the master stays if there is no successor.
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
  // A late heartbeat from before it became master has a lower term or the role `claim`.
  return beat.promised >= leader.term && beat.role !== 'master' && beat.role !== 'claim' &&
    beat.leader?.sid !== leader.sid
}

/** Allows a change by one voter, and only if earlier changes are settled. */
function mayChangeVoters ({ master, from, to, settled }: VoterChange): 'yes' | VoterRefusal {
  const added = to.filter((id) => !from.includes(id)).length
  const removed = from.filter((id) => !to.includes(id)).length
  if (to.length === 0 || added + removed !== 1 || new Set(to).size !== to.length) return 'voters_invalid'
  // Otherwise the only node that has the change could be this master, which may no longer be elected.
  if (!to.includes(master)) return 'voters_self'
  return settled ? 'yes' : 'voters_busy'
}

/** The decisions of the algorithm as pure functions, so that a test can replace a single one. */
export const RULES = {
  /** Whether a gap between two steps means that this node was paused. */
  stalled: (gap: number, timing: Timing): boolean => gap > timing.stall,
  /** Whether a node that heard its master `since` ms ago supports no other one. */
  sticksToMaster: (since: number, timing: Timing): boolean => since < timing.sticky,
  /** An election starts only when no peer knows a live master, and enough peers agree. */
  mayCampaign: ({ denied, grants, needed }: { denied: boolean, grants: number, needed: number }): boolean =>
    !denied && grants >= needed,
  /** A refusal counts when it names a master other than the node that asked. */
  denies: (answer: MessageOf<'pre-vote-answer'>, self: NodeId): boolean =>
    !answer.grant && answer.leader !== null && answer.leader.master !== self,
  ballotOrder: byBallot,
  /** Whether to answer a ballot of a past term. */
  answersOldBallot: (): boolean => true,
  mayVote: (voted: Token, request: Token): boolean => request.term > voted.term ||
    (request.term === voted.term && request.master === voted.master),
  /** A candidate's log must be at least as long as the voter's. */
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
  /** A log is never replaced by a shorter one. */
  mayReplace: (incoming: LogPosition, own: LogPosition): boolean => byPosition(incoming, own) >= 0,
  /** A change is acknowledged when enough nodes have it. */
  heldByEnough: (copies: number, needed: number): boolean => copies >= needed,
  /** Whether a message answers the last probe of a paused master. */
  verifies: (message: Message, nonce: number): boolean =>
    message.kind === 'probe-answer' && message.nonce === nonce,
  mayActAsMaster: (verified: boolean): boolean => verified,
  trustsSilence,
  staysMaster,
  /** Whether a refused master may raise the term of its session instead of ending it. */
  mayRaiseTerm: (mode: Mode, verified: boolean): boolean => mode === 'available' && verified,
  keepsMastership,
  hasResigned,
  enteredBefore: (receipt: CommandReceipt | undefined): CommandReceipt | undefined => receipt,
  fitsSession: (commandSid: string, sid: string): boolean => commandSid === sid,
  /** Streams end with their session, and not when only its term rises. */
  sessionEnds: (old: Leader | null, next: Leader | null): boolean => old !== null && old.sid !== next?.sid,
  mayChangeVoters
}
export type Rules = typeof RULES

/**
 * 1 keeps all parts of a split cluster available; a majority, or more, never loses an acknowledged change.
 */
export type QuorumSetting = 'majority' | number

export interface Quorum {
  readonly mode: Mode
  /** Minimum number of votes, capped at the number of voters; a majority is always needed. */
  readonly atLeast: number
}

/**
 * Reads `cluster.quorum` for a list of voters. @throws RangeError, with the numbers and the remedy, for a
 * number that is not 1 and not above half of the voters
 */
export function readQuorum (setting: QuorumSetting, voters: readonly NodeId[]): Quorum {
  if (setting === 1) return { mode: 'available', atLeast: 1 }
  const least = majorityOf(voters.length)
  if (setting === 'majority') return { mode: 'majority', atLeast: 1 }
  if (Number.isInteger(setting) && setting >= least) return { mode: 'majority', atLeast: setting }
  throw new RangeError(`cluster.quorum is ${setting}, but ${voters.length} voters need at least ${least}, ` +
    'so that two halves cannot both decide: set "majority", or 1 to stay available without this guarantee')
}

/** Smallest number of voters of which any two groups share one. */
export function majorityOf (voters: number): number {
  return Math.floor(voters / 2) + 1
}

/** How many votes are needed. Infinite while a node that needs a majority knows no voters. */
export function votesNeeded (quorum: Quorum, voters: readonly NodeId[]): number {
  if (quorum.mode === 'available') return 1
  const { length } = voters
  return length === 0 ? Infinity : Math.max(majorityOf(length), Math.min(quorum.atLeast, length))
}

/** Number of voters among `nodes`; in the available mode all count. */
export function votesOf (quorum: Quorum, voters: readonly NodeId[], nodes: Iterable<NodeId>): number {
  let n = 0
  for (const id of nodes) if (quorum.mode === 'available' || voters.includes(id)) n++
  return n
}
