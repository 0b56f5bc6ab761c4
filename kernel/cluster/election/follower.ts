import { setLeader } from './sessions.js'
import type { Elector } from './elector.js'
import type { MessageOf } from './messages.js'
import type { Leader, NodeId } from './types.js'

/**
 * Whether this node follows `leader`, who spoke for itself, and begins to if it does not yet. A master
 * below the promise is refused and told why; another session is refused while the own master lives.
 */
export function accept (e: Elector, from: NodeId, leader: Leader, now: number): boolean {
  if (leader.master !== from) return false
  e.noteTerm(leader.term)
  if (!e.rules.mayFollow(e.options.quorum.mode, e.promise.promised, leader)) return refuse(e, from, leader)
  const same = e.leader?.sid === leader.sid
  if (same && leader.term < (e.leader?.term ?? 0)) return false
  if (!same && (e.phase.role === 'master' || e.hasLiveMaster(now))) return false
  e.promise.follow(leader)
  e.noteStorage()
  abandonOwnElection(e, now)
  setLeader(e, leader, now)
  return true
}

function refuse (e: Elector, from: NodeId, leader: Leader): false {
  e.noteRefused(leader)
  if (e.rules.answersRefused()) e.send(from, { kind: 'nack', sid: leader.sid, promised: e.promise.promised })
  return false
}

function abandonOwnElection (e: Elector, now: number): void {
  const { phase } = e
  if (phase.role === 'claim' && e.rules.claimStands(e.promise.promised, phase.leader, true)) return
  if (phase.role !== 'follower') e.toFollower(now)
}

/** Control data from a master. It is acknowledged only when the promise for its term is on disk. */
export function onAppend (e: Elector, from: NodeId, append: MessageOf<'append'>, now: number): void {
  const { leader } = append
  if (!accept(e, from, leader, now)) return
  if (e.rules.mayReplace(append.fresh, e.ledger.fresh())) {
    const adoption = e.ledger.adopt(append.body)
    if (adoption === 'gap') return e.send(from, { kind: 'need', sid: leader.sid })
    if (adoption === 'refused') return
    if (adoption === 'failed') {
      e.promise.failed()
      return e.noteStorage()
    }
  }
  const own = e.ledger.fresh()
  if (own.term !== leader.term || !e.promise.covers(leader.term)) return
  e.send(from, { kind: 'ack', sid: leader.sid, term: leader.term, seq: own.seq })
}
