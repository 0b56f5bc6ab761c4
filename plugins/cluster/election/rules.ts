import type {
  Ballot, Heartbeat, Leader, LogPosition, Message, MessageOf, Mode, NodeId, CommandReceipt, Token
} from './protocol.js'
import type { Timing } from './timing.js'

/** Below 0 when `a` comes first, above 0 when `b` does, 0 when they are equal. */
export type Order<T> = (a: T, b: T) => number

const text: Order<string> = (a, b) => a < b ? -1 : a > b ? 1 : 0

/** Whose log is longer, as Raft has it: the term of the last entry decides, then its number. */
export const byPosition: Order<LogPosition> = (a, b) => a.term - b.term || a.seq - b.seq

/** Ballots: who may be master comes first, then who knows most, then the id. */
export const byBallot: Order<Ballot> = (a, b) => Number(a.eligible) - Number(b.eligible) ||
  byPosition(a, b) || text(a.nodeId, b.nodeId)

/** Order of two masters that meet: the greater one stays. */
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
  /** Milliseconds since the first question. */
  readonly waited: number
  /** Peers that live, and those ever met. */
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
  /** Milliseconds since it became master. */
  readonly age: number
  /** Milliseconds since its own disk refuses writes; null while it takes them. */
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

/** A master whose term is below the one voted in is refused. */
function mayFollow (mode: Mode, voted: Token, leader: Token): boolean {
  if (leader.term !== voted.term) return leader.term > voted.term
  // A majority elects one master per term, so whoever leads it was elected. Else two halves may both have
  // one, and a node follows only the one it chose, so that its data of one term comes from one master.
  return mode === 'majority' || voted.master === leader.master
}

/**
 * Whether a master may go on without answers to its probe. With a majority it asks until it has one, or
 * stops. With quorum 1 every live peer must answer first, since it may have elected another master;
 * disconnected ones count as gone after `silence`.
 */
function trustsSilence ({ mode, waited, alive, known }: ProbeState, { silence }: Timing): boolean {
  return mode === 'available' && (known === 0 || (alive === 0 && waited > silence))
}

/**
 * A master stops if it reaches too few voters for too long, or its disk refuses writes after time for the
 * others to try theirs; with quorum 1 it stays without a successor.
 */
function keepsMastership ({ mode, reachable, needed, age, refusing, heirs }: Reach, timing: Timing): boolean {
  if (refusing !== null && refusing >= timing.heartbeat / 2 && (heirs || mode === 'majority')) return false
  return mode === 'available' || reachable >= needed || age <= timing.silence
}

/** Of two masters that meet, whether this one stays. */
function staysMaster ({ mode, verified, mine, other, ageStep }: MasterConflict): boolean {
  if (mode === 'majority') return mine.term >= other.term
  return verified && byScore(mine, other, ageStep) > 0
}

/** Whether the master's own heartbeat says that it is master no more. */
function hasResigned (leader: Leader, beat: Heartbeat): boolean {
  if (beat.boot !== leader.boot) return beat.boot > leader.boot
  // A beat from before it became master may arrive late: then its term was lower, or it was still asking
  // for votes.
  return beat.promised >= leader.term && beat.role !== 'master' && beat.role !== 'claim' &&
    beat.leader?.sid !== leader.sid
}

/** The list of voters changes by one, and only when nothing before it is open. */
function mayChangeVoters ({ master, from, to, settled }: VoterChange): 'yes' | VoterRefusal {
  const added = to.filter((id) => !from.includes(id)).length
  const removed = from.filter((id) => !to.includes(id)).length
  if (to.length === 0 || added + removed !== 1 || new Set(to).size !== to.length) return 'voters_invalid'
  // Else the one node that holds the change could be the one that may not stand, and nobody would be elected.
  if (!to.includes(master)) return 'voters_self'
  return settled ? 'yes' : 'voters_busy'
}

/** The decisions of the algorithm as pure functions, so that a test can remove one and show its purpose. */
export const RULES = {
  /** A gap between two steps that shows that this node was paused. */
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
  /** Answers a ballot of a finished term. */
  answersOldBallot: (): boolean => true,
  /** One vote per term. */
  mayVote: (voted: Token, request: Token): boolean => request.term > voted.term ||
    (request.term === voted.term && request.master === voted.master),
  /** A candidate's log must be at least as long as the voter's. */
  upToDate: (candidate: LogPosition, voter: LogPosition): boolean => byPosition(candidate, voter) >= 0,
  /** Only a vote that was written to the disk counts. */
  writeCounts: (persisted: boolean): boolean => persisted,
  voteResult,
  /** Accepting any master ends an own candidacy; so does a vote for somebody else. */
  candidacyStands: (voted: Token, own: Token, acceptedOther: boolean): boolean =>
    !acceptedOther && voted.term === own.term && voted.master === own.master,
  mayFollow,
  /** Sends a refused master the term and the master that prevailed. */
  answersRefused: (): boolean => true,
  /** A log is never replaced by a shorter one. */
  mayReplace: (incoming: LogPosition, own: LogPosition): boolean => byPosition(incoming, own) >= 0,
  /** A change is acknowledged when enough nodes hold it. */
  heldByEnough: (copies: number, needed: number): boolean => copies >= needed,
  /** Whether a message proves that a paused master is still one: an answer to its last probe. */
  verifies: (message: Message, nonce: number): boolean =>
    message.kind === 'probe-answer' && message.nonce === nonce,
  /** A paused master waits for the answers to its probe. */
  mayActAsMaster: (verified: boolean): boolean => verified,
  trustsSilence,
  staysMaster,
  /** Whether a refused master may raise the term of its session instead of ending it. */
  mayRaiseTerm: (mode: Mode, verified: boolean): boolean => mode === 'available' && verified,
  keepsMastership,
  hasResigned,
  /** A command is entered once; a retry gets the first answer. */
  enteredBefore: (receipt: CommandReceipt | undefined): CommandReceipt | undefined => receipt,
  /** A command for another session is refused. */
  fitsSession: (commandSid: string, sid: string): boolean => commandSid === sid,
  /** Streams end with their session, and not when only its term rises. */
  sessionEnds: (old: Leader | null, next: Leader | null): boolean => old !== null && old.sid !== next?.sid,
  mayChangeVoters
}
export type Rules = typeof RULES

/** 1 stays available everywhere; a majority, or more, never loses an acknowledged change. */
export type QuorumSetting = 'majority' | number

export interface Quorum {
  readonly mode: Mode
  /** Least voters asked for, or all while there are fewer; a majority of the list is always needed. */
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
    'so that two halves cannot both decide: set "majority", or 1 to stay available without that promise')
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
