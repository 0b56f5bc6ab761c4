import { startClaim } from './claim.js'
import { greatest } from './ballots.js'
import type { Elector } from './elector.js'
import type { MessageOf } from './messages.js'
import type { Campaigning } from './roles.js'
import type { NodeId } from './types.js'

/** Opens the campaign for a term, or joins it: sends the own ballot and collects those of the live peers. */
export function startCampaign (e: Elector, term: number, now: number): void {
  e.noteTerm(term)
  const ballot = e.ballot(now)
  const phase: Campaigning = {
    role: 'campaign',
    term,
    until: now + e.timing.campaign,
    peers: new Set(e.liveness.alive(now)),
    ballots: new Map([[e.id, ballot]])
  }
  e.enter(phase)
  e.sendTo(phase.peers, { kind: 'ballot', term, ballot })
  advanceCampaign(e, phase, now)
}

export function onBallot (
  e: Elector, from: NodeId, { term, ballot }: MessageOf<'ballot'>, now: number
): void {
  // A node under a live master names it instead of joining.
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

/** Ends the campaign when every peer that is still connected answered, or the time is over. */
export function advanceCampaign (e: Elector, phase: Campaigning, now: number): void {
  const open = [...phase.peers].some((id) => !phase.ballots.has(id) && e.liveness.connected(id))
  if (open && now < phase.until) return
  const best = greatest(phase.ballots.values(), e.rules.ballotOrder)
  if (best?.nodeId === e.id && best.eligible && phase.term > e.promise.promised.term) {
    return startClaim(e, phase.term, now)
  }
  // Whoever has the best ballot claims now. This node waits for that claim, and a little longer.
  e.toFollower(now + e.timing.claim + e.timing.preVote * (1 + e.io.random()))
}
