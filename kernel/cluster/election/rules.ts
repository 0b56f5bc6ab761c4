import type { Heartbeat, Message, MessageOf } from './messages.js'
import type { Timing } from './timing.js'
import type { Ballot, LogPosition, Leader, Mode, NodeId, Receipt, Token } from './types.js'

/** Below 0 when `a` comes first, above 0 when `b` does, 0 when they are equal. */
export type Order<T> = (a: T, b: T) => number

const text: Order<string> = (a, b) => a < b ? -1 : a > b ? 1 : 0

/** Which copy of the control data is newer: the term decides, then the length. */
export const byFreshness: Order<LogPosition> = (a, b) => a.term - b.term || a.seq - b.seq

/** Ballots: who may be master comes first, then who knows most, then the id. */
export const byBallot: Order<Ballot> = (a, b) => Number(a.eligible) - Number(b.eligible) ||
  byFreshness(a, b) || text(a.nodeId, b.nodeId)

/** What two masters that meet are compared by. */
export interface Standing {
  readonly following: number
  /** Milliseconds. */
  readonly age: number
  readonly master: NodeId
}

/**
 * Of two masters the one with more followers wins, then the older session (in steps of `ageStep` ms), then
 * the id.
 */
export function byStanding (a: Standing, b: Standing, ageStep: number): number {
  return a.following - b.following || Math.floor(a.age / ageStep) - Math.floor(b.age / ageStep) ||
    text(a.master, b.master)
}

/** The greatest of some values; undefined when there are none. */
export function greatest<T> (values: Iterable<T>, order: Order<T>): T | undefined {
  let best: T | undefined
  for (const value of values) if (best === undefined || order(value, best) > 0) best = value
  return best
}

/**
 * The decisions of the algorithm, each a pure function. The phases ask them and do the rest, so that a test
 * can take one rule away and show what it is for.
 */
export interface Rules {
  /** A node suspects its own silence after it stood still. */
  stalled (gap: number, timing: Timing): boolean
  /** Who heard its master `since` ms ago supports no other. */
  sticksToMaster (since: number, timing: Timing): boolean
  /** An election starts only when no peer knows a live master, and enough peers agree. */
  mayCampaign (preVote: { denied: boolean, grants: number, needed: number }): boolean
  /** A refusal counts when it names a master other than the node that asked. */
  denies (answer: MessageOf<'pre-vote-answer'>, self: NodeId): boolean
  ballotOrder (a: Ballot, b: Ballot): number
  /** A ballot of a term that is over is told so. */
  answersOldBallot (): boolean
  /** One vote per term. */
  mayVote (promised: Token, claim: Token): boolean
  /** A claimant must know at least what the voter knows. */
  freshEnough (claimant: LogPosition, voter: LogPosition): boolean
  /** Only a write that succeeded is a promise. */
  promiseCounts (persisted: boolean): boolean
  claimResult (claim: ClaimState): 'won' | 'lost' | 'open'
  /** Accepting any master ends an own claim, and a claim stands only while the promise is still its own. */
  claimStands (promised: Token, claim: Token, acceptedOther: boolean): boolean
  /** Masters below the promise are refused. */
  mayFollow (mode: Mode, promised: Token, leader: Token): boolean
  /** A refused master is told the promise that stood against it. */
  answersRefused (): boolean
  /** Control data never goes back. */
  mayReplace (incoming: LogPosition, own: LogPosition): boolean
  /** A change is acknowledged when enough nodes hold it. */
  heldByEnough (copies: number, needed: number): boolean
  /** What makes a master that slept sure again: an answer to its latest question, nothing older. */
  verifies (message: Message, nonce: number): boolean
  /** A master that is not sure does nothing in that role. */
  mayActAsMaster (verified: boolean): boolean
  /** A master that slept and that nobody answers is sure all the same. */
  trustsSilence (probe: Unanswered, timing: Timing): boolean
  /** Of two masters that meet, whether this one stays. */
  staysMaster (meeting: Meeting): boolean
  /** A refused master may raise the term of its session instead of ending it. */
  mayReanoint (mode: Mode, verified: boolean): boolean
  /** A master that reaches too few voters for too long stops. */
  keepsMastership (state: Reach, timing: Timing): boolean
  /** The leader's own heartbeat says that it is not the leader any more. */
  hasResigned (leader: Leader, beat: Heartbeat): boolean
  /** A command is entered once; a retry gets the first answer. */
  enteredBefore (receipt: Receipt | undefined): Receipt | undefined
  /** A command for another session is refused. */
  fitsSession (commandSid: string, sid: string): boolean
  /** Streams end with their session, and not when only its term rises. */
  sessionEnds (old: Leader | null, next: Leader | null): boolean
  /** The list of voters changes by one, and only when nothing before it is open. */
  mayChangeVoters (change: VoterChange): 'yes' | VoterRefusal
}

export interface Unanswered {
  readonly mode: Mode
  /** Milliseconds since the first question. */
  readonly waited: number
  /** Peers that live, and those ever met. */
  readonly alive: number
  readonly known: number
}

export interface ClaimState {
  readonly mode: Mode
  readonly yes: number
  readonly needed: number
  readonly refused: boolean
  /** Every live peer answered. */
  readonly complete: boolean
  readonly expired: boolean
}

/** How many voters a master reaches. */
export interface Reach {
  readonly mode: Mode
  readonly reachable: number
  readonly needed: number
  /** Milliseconds since it became master. */
  readonly age: number
}

export interface Meeting {
  readonly mode: Mode
  readonly verified: boolean
  readonly mine: Standing & Token
  readonly other: Standing & Token
  readonly ageStep: number
}

export type VoterRefusal = 'voters_invalid' | 'voters_self' | 'voters_busy'

export interface VoterChange {
  readonly master: NodeId
  readonly from: readonly NodeId[]
  readonly to: readonly NodeId[]
  /** Everything up to the last change of voters, and the start of this session, is held by enough voters. */
  readonly settled: boolean
}

function claimResult (state: ClaimState): 'won' | 'lost' | 'open' {
  const { mode, yes, needed, refused, complete, expired } = state
  if (mode === 'majority') return yes >= needed ? 'won' : expired || complete ? 'lost' : 'open'
  if (refused) return 'lost'
  return complete || expired ? 'won' : 'open'
}

function mayFollow (mode: Mode, promised: Token, leader: Token): boolean {
  if (leader.term !== promised.term) return leader.term > promised.term
  // A majority elects one master per term, so whoever leads it was elected. Else two halves may both have
  // one, and a node follows only the one it chose, so that its data of one term comes from one master.
  return mode === 'majority' || promised.master === leader.master
}

/**
 * The other mode asks until it has its majority, or stops. Here whoever lives must answer first: it may have
 * elected another master meanwhile. One that is cut off counts as gone soon.
 */
function trustsSilence ({ mode, waited, alive, known }: Unanswered, { silence }: Timing): boolean {
  return mode === 'available' && (known === 0 || (alive === 0 && waited > silence))
}

function staysMaster ({ mode, verified, mine, other, ageStep }: Meeting): boolean {
  if (mode === 'majority') return mine.term >= other.term
  return verified && byStanding(mine, other, ageStep) > 0
}

function hasResigned (leader: Leader, beat: Heartbeat): boolean {
  if (beat.boot !== leader.boot) return beat.boot > leader.boot
  // A beat from before it became master may arrive late: then its promise was lower, or it was still
  // claiming.
  return beat.promised >= leader.term && beat.role !== 'master' && beat.role !== 'claim' &&
    beat.leader?.sid !== leader.sid
}

function mayChangeVoters ({ master, from, to, settled }: VoterChange): 'yes' | VoterRefusal {
  const added = to.filter((id) => !from.includes(id)).length
  const removed = from.filter((id) => !to.includes(id)).length
  if (to.length === 0 || added + removed !== 1 || new Set(to).size !== to.length) return 'voters_invalid'
  // Else the one node that holds the change could be the one that may not stand, and nobody would be elected.
  if (!to.includes(master)) return 'voters_self'
  return settled ? 'yes' : 'voters_busy'
}

export const RULES: Rules = {
  stalled: (gap, timing) => gap > timing.stall,
  sticksToMaster: (since, timing) => since < timing.sticky,
  mayCampaign: ({ denied, grants, needed }) => !denied && grants >= needed,
  denies: (answer, self) => !answer.grant && answer.leader !== null && answer.leader.master !== self,
  ballotOrder: byBallot,
  answersOldBallot: () => true,
  mayVote: (promised, claim) => claim.term > promised.term ||
    (claim.term === promised.term && claim.master === promised.master),
  freshEnough: (claimant, voter) => byFreshness(claimant, voter) >= 0,
  promiseCounts: (persisted) => persisted,
  claimResult,
  claimStands: (promised, claim, acceptedOther) => !acceptedOther && promised.term === claim.term &&
    promised.master === claim.master,
  mayFollow,
  answersRefused: () => true,
  mayReplace: (incoming, own) => byFreshness(incoming, own) >= 0,
  heldByEnough: (copies, needed) => copies >= needed,
  verifies: (message, nonce) => message.kind === 'probe-answer' && message.nonce === nonce,
  mayActAsMaster: (verified) => verified,
  trustsSilence,
  staysMaster,
  mayReanoint: (mode, verified) => mode === 'available' && verified,
  keepsMastership: ({ mode, reachable, needed, age }, timing) =>
    mode === 'available' || reachable >= needed || age <= timing.silence,
  hasResigned,
  enteredBefore: (receipt) => receipt,
  fitsSession: (commandSid, sid) => commandSid === sid,
  sessionEnds: (old, next) => old !== null && old.sid !== next?.sid,
  mayChangeVoters
}
