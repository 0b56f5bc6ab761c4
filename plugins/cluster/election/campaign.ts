import { base32 } from '../../../kernel/net/encoding.js'
import { setLeader } from './follower.js'
import { startSession } from './master.js'
import { greatest } from './rules.js'
import type { Campaigning, RequestingVotes, Elector, PreVoting } from './elector.js'
import type { Leader, MessageOf, NodeId, SessionId } from './protocol.js'

/** Whether an election is due: there is no master, or it is silent. */
export function suspects (e: Elector, now: number): boolean {
  if (now < e.retryAt) return false
  if (e.leader === null) return true
  return e.lostAt !== null ? now - e.lostAt >= e.timing.settle : now - e.leaderContactAt >= e.timing.silence
}

/** Asks the live peers whether they have lost the master too. */
export function startPreVote (e: Elector, now: number): void {
  const peers = e.liveness.alive(now)
  const phase: PreVoting = {
    role: 'pre-vote', round: ++e.rounds, until: now + e.timing.preVote, waiting: new Set(peers),
    grants: new Set([e.id]), denied: null
  }
  e.enter(phase)
  e.sendTo(peers, { kind: 'pre-vote', round: phase.round })
  advancePreVote(e, phase, now)
}

export function onPreVote (e: Elector, from: NodeId, { round }: MessageOf<'pre-vote'>, now: number): void {
  const grant = !e.hasLiveMaster(now) || e.leader?.master === from
  e.send(from, { kind: 'pre-vote-answer', round, grant, leader: e.leader })
}

export function onPreVoteAnswer (
  e: Elector, from: NodeId, answer: MessageOf<'pre-vote-answer'>, now: number
): void {
  const { phase } = e
  if (phase.role !== 'pre-vote' || phase.round !== answer.round || !phase.waiting.delete(from)) return
  if (answer.grant) phase.grants.add(from)
  else if (e.rules.denies(answer, e.id)) phase.denied = answer.leader
  advancePreVote(e, phase, now)
}

export function advancePreVote (e: Elector, phase: PreVoting, now: number): void {
  const complete = phase.waiting.size === 0 || now >= phase.until
  if (!complete && phase.denied === null) return
  const grants = e.votes(phase.grants)
  const may = e.rules.mayCampaign({ denied: phase.denied !== null, grants, needed: e.needed() })
  if (!may && phase.denied !== null) return stayDetached(e, phase, now)
  if (e.leader !== null) setLeader(e, null, now)
  if (may) startCampaign(e, e.topTerm() + 1, now)
  else e.toFollower(now + e.timing.heartbeat)
}

/** Some peers still have a master: keeps this node's session, unless theirs is a newer one. */
function stayDetached (e: Elector, { denied }: PreVoting, now: number): void {
  e.toFollower(now + e.timing.heartbeat)
  if (e.leader !== null && denied !== null && denied.sid !== e.leader.sid && denied.term > e.leader.term) {
    setLeader(e, null, now)
  }
}

/** Starts or joins the campaign for a term: exchanges ballots with the live peers. */
function startCampaign (e: Elector, term: number, now: number): void {
  e.noteTerm(term)
  const ballot = e.ballot(now)
  const phase: Campaigning = {
    role: 'campaign', term, until: now + e.timing.campaign, peers: new Set(e.liveness.alive(now)),
    ballots: new Map([[e.id, ballot]])
  }
  e.enter(phase)
  e.sendTo(phase.peers, { kind: 'ballot', term, ballot })
  advanceCampaign(e, phase, now)
}

export function onBallot (
  e: Elector, from: NodeId, { term, ballot }: MessageOf<'ballot'>, now: number
): void {
  // A node with a live master replies with its heartbeat instead of joining the campaign.
  if (e.hasLiveMaster(now)) return e.send(from, e.heartbeat(now))
  const { role } = e.phase
  if (term > e.topTerm() && role !== 'claim' && role !== 'master') startCampaign(e, term, now)
  const { phase } = e
  if (phase.role === 'campaign' && phase.term === term) {
    phase.ballots.set(from, ballot)
    advanceCampaign(e, phase, now)
  } else if (term <= e.topTerm() && e.rules.answersOldBallot()) {
    e.send(from, { kind: 'stale', term: e.topTerm() })
  }
}

export function onStale (e: Elector, _from: NodeId, { term }: MessageOf<'stale'>, now: number): void {
  e.noteTerm(term)
  if (e.phase.role !== 'campaign' || term < e.phase.term) return
  e.toFollower(now + e.io.random() * 2 * e.timing.backoff)
}

/** Ends the campaign when all connected peers have answered, or at the timeout. */
export function advanceCampaign (e: Elector, phase: Campaigning, now: number): void {
  const open = [...phase.peers].some((id) => !phase.ballots.has(id) && e.liveness.connected(id))
  if (open && now < phase.until) return
  const best = greatest(phase.ballots.values(), e.rules.ballotOrder)
  if (best?.nodeId === e.id && best.eligible && phase.term > e.hardState.voted.term) {
    return requestVotes(e, phase.term, now)
  }
  // Another node has the best ballot: wait long enough for it to request votes.
  e.toFollower(now + e.timing.vote + e.timing.preVote * (1 + e.io.random()))
}

/** Writes the vote for itself to disk, then requests votes from the live peers. */
function requestVotes (e: Elector, term: number, now: number): void {
  const stored = e.hardState.grant({ term, master: e.id })
  e.noteStorage()
  if (!stored) return e.toFollower(now + e.timing.heartbeat)
  const { boot } = e.hardState
  const peers = e.liveness.alive(now)
  const phase: RequestingVotes = {
    role: 'claim',
    leader: { sid: newSessionId(term, e.id, boot, () => e.io.random()), term, master: e.id, boot },
    until: now + e.timing.vote, waiting: new Set(peers), yes: new Set([e.id]), refused: false
  }
  e.enter(phase)
  e.sendTo(peers, { kind: 'claim', leader: phase.leader, fresh: e.log.last() })
  tally(e, phase, now)
}

/** Answers a vote request. The vote is on disk before the answer is sent. */
export function onVoteRequest (e: Elector, from: NodeId, request: MessageOf<'claim'>, now: number): void {
  const { leader } = request
  e.noteTerm(leader.term)
  const answer = leader.master === from && mayVoteFor(e, request, now) ? vote(e, leader, now) : 'no'
  e.send(from, { kind: 'claim-answer', sid: leader.sid, vote: answer, promised: e.hardState.voted.term })
}

function mayVoteFor (e: Elector, { leader, fresh }: MessageOf<'claim'>, now: number): boolean {
  if (e.phase.role === 'master') return false
  if (e.hasLiveMaster(now) && e.leader?.sid !== leader.sid) return false
  if (!e.rules.mayVote(e.hardState.voted, leader)) return false
  // In available mode an ineligible voter accepts any log, so as not to block the election.
  const counts = e.options.quorum.mode === 'majority' || e.eligible(now)
  return !counts || e.rules.upToDate(fresh, e.log.last())
}

function vote (e: Elector, leader: Leader, now: number): 'yes' | 'abstain' {
  const stored = e.hardState.grant(leader)
  e.noteStorage()
  if (!stored) return 'abstain'
  e.toFollower(now + e.timing.vote + e.timing.preVote)
  return 'yes'
}

export function onVote (e: Elector, from: NodeId, answer: MessageOf<'claim-answer'>, now: number): void {
  e.noteTerm(answer.promised)
  const { phase } = e
  if (phase.role !== 'claim' || phase.leader.sid !== answer.sid || !phase.waiting.delete(from)) return
  if (answer.vote === 'yes') phase.yes.add(from)
  if (answer.vote === 'no') phase.refused = true
  tally(e, phase, now)
}

export function tally (e: Elector, phase: RequestingVotes, now: number): void {
  const result = e.rules.voteResult({
    mode: e.options.quorum.mode, yes: e.votes(phase.yes), needed: e.needed(), refused: phase.refused,
    complete: phase.waiting.size === 0, expired: now >= phase.until
  })
  if (result === 'open') return
  const stands = e.rules.candidacyStands(e.hardState.voted, phase.leader, false)
  if (result === 'won' && stands) startSession(e, phase.leader, now)
  else e.toFollower(now + e.timing.backoff + e.io.random() * e.timing.backoffSpread)
}

const TERM_BYTES = 6
const BOOT_BYTES = 4
const RANDOM_BYTES = 8

/**
 * base32 of the term (6 bytes, big endian), the master's id, its boot count (4 bytes) and 64 random bits:
 * unique even if the disk lost the boot count. @param random 0 (inclusive) to 1 (exclusive)
 */
export function newSessionId (term: number, master: NodeId, boot: number, random: () => number): SessionId {
  const name = new TextEncoder().encode(master)
  const bytes = [...bigEndian(term, TERM_BYTES), ...name, ...bigEndian(boot, BOOT_BYTES)]
  for (let i = 0; i < RANDOM_BYTES; i++) bytes.push(Math.floor(random() * 256))
  return base32(Uint8Array.from(bytes))
}

function bigEndian (value: number, size: number): number[] {
  return Array.from({ length: size }, (_, i) => Math.floor(value / 256 ** (size - 1 - i)) % 256)
}
