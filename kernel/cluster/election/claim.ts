import { become } from './master.js'
import { newSessionId } from './session-id.js'
import type { Elector } from './elector.js'
import type { MessageOf } from './messages.js'
import type { Claiming } from './roles.js'
import type { Leader, NodeId } from './types.js'

/** Promises itself the term, durably, then asks every live peer for its promise. */
export function startClaim (e: Elector, term: number, now: number): void {
  const stored = e.promise.grant({ term, master: e.id })
  e.noteStorage()
  if (!stored) return e.toFollower(now + e.timing.heartbeat)
  const { boot } = e.promise
  const peers = e.liveness.alive(now)
  const phase: Claiming = {
    role: 'claim',
    leader: { sid: newSessionId(term, e.id, boot, () => e.io.random()), term, master: e.id, boot },
    until: now + e.timing.claim,
    waiting: new Set(peers),
    yes: new Set([e.id]),
    refused: false
  }
  e.enter(phase)
  e.sendTo(peers, { kind: 'claim', leader: phase.leader, fresh: e.ledger.fresh() })
  advanceClaim(e, phase, now)
}

/** A peer asks for this node's promise. The promise is on disk before the answer leaves. */
export function onClaim (e: Elector, from: NodeId, claim: MessageOf<'claim'>, now: number): void {
  const { leader } = claim
  e.noteTerm(leader.term)
  const vote = leader.master === from && mayVoteFor(e, claim, now) ? promise(e, leader, now) : 'no'
  e.send(from, { kind: 'claim-answer', sid: leader.sid, vote, promised: e.promise.promised.term })
}

function mayVoteFor (e: Elector, { leader, fresh }: MessageOf<'claim'>, now: number): boolean {
  if (e.phase.role === 'master') return false
  if (e.hasLiveMaster(now) && e.leader?.sid !== leader.sid) return false
  if (!e.rules.mayVote(e.promise.promised, leader)) return false
  // In the available mode a node that cannot be master must not keep the others from having one.
  const counts = e.options.quorum.mode === 'majority' || e.eligible(now)
  return !counts || e.rules.freshEnough(fresh, e.ledger.fresh())
}

function promise (e: Elector, leader: Leader, now: number): 'yes' | 'abstain' {
  const stored = e.promise.grant(leader)
  e.noteStorage()
  if (!stored) return 'abstain'
  e.toFollower(now + e.timing.claim + e.timing.preVote)
  return 'yes'
}

export function onClaimAnswer (
  e: Elector, from: NodeId, answer: MessageOf<'claim-answer'>, now: number
): void {
  e.noteTerm(answer.promised)
  const { phase } = e
  if (phase.role !== 'claim' || phase.leader.sid !== answer.sid || !phase.waiting.delete(from)) return
  if (answer.vote === 'yes') phase.yes.add(from)
  if (answer.vote === 'no') phase.refused = true
  advanceClaim(e, phase, now)
}

export function advanceClaim (e: Elector, phase: Claiming, now: number): void {
  const result = e.rules.claimResult({
    mode: e.options.quorum.mode,
    yes: e.voices(phase.yes),
    needed: e.needed(),
    refused: phase.refused,
    complete: phase.waiting.size === 0,
    expired: now >= phase.until
  })
  if (result === 'open') return
  const stands = e.rules.claimStands(e.promise.promised, phase.leader, false)
  if (result === 'won' && stands) become(e, phase.leader, now)
  else e.toFollower(now + e.timing.backoff + e.io.random() * e.timing.backoffSpread)
}
