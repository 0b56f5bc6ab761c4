import type { Elector } from './elector.js'
import type { Leader, MessageOf, NodeId } from './protocol.js'

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
