import { startCampaign } from './campaign.js'
import { setLeader } from './sessions.js'
import type { Elector } from './elector.js'
import type { MessageOf } from './messages.js'
import type { PreVoting } from './roles.js'
import type { NodeId } from './types.js'

/** Whether this node has reason to believe that there is no master. */
export function suspects (e: Elector, now: number): boolean {
  if (now < e.retryAt) return false
  if (e.leader === null) return true
  return e.lostAt !== null ? now - e.lostAt >= e.timing.settle : now - e.heardAt >= e.timing.silence
}

/** Asks the live peers whether they miss the master too. */
export function startPreVote (e: Elector, now: number): void {
  const peers = e.liveness.alive(now)
  const phase: PreVoting = {
    role: 'pre-vote',
    round: ++e.rounds,
    until: now + e.timing.preVote,
    waiting: new Set(peers),
    grants: new Set([e.id]),
    denied: null
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
  const grants = e.voices(phase.grants)
  const may = e.rules.mayCampaign({ denied: phase.denied !== null, grants, needed: e.needed() })
  if (!may && phase.denied !== null) return stayDetached(e, phase, now)
  if (e.leader !== null) setLeader(e, null, now)
  if (may) startCampaign(e, e.topTerm() + 1, now)
  else e.toFollower(now + e.timing.heartbeat)
}

/** Others still hear a master. Its session goes on here too, unless they have moved on to another one. */
function stayDetached (e: Elector, { denied }: PreVoting, now: number): void {
  e.toFollower(now + e.timing.heartbeat)
  if (e.leader !== null && denied !== null && denied.sid !== e.leader.sid && denied.term > e.leader.term) {
    setLeader(e, null, now)
  }
}
