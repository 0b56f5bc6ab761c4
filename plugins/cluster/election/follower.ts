import type { Elector } from './elector.js'
import type { CommandId, Leader, MessageOf, NodeId, Outcome, SessionId, StreamId } from './protocol.js'

/** Sets the master, or none. If the session ends, its streams and commands get `session_changed`. */
export function setLeader (e: Elector, next: Leader | null, now: number): void {
  const old = e.leader
  e.leader = next
  e.leaderContactAt = now
  e.lostAt = null
  if (next !== null) e.noteTerm(next.term)
  if (old?.sid === next?.sid && old?.term === next?.term) return
  e.io.sessionChanged(next, old)
  if (old !== null && e.rules.sessionEnds(old, next)) endSession(e, old.sid)
}

function endSession (e: Elector, sid: SessionId): void {
  for (const [stream, of] of e.streams) {
    if (of !== sid) continue
    e.streams.delete(stream)
    e.io.terminal(stream, 'session_changed')
  }
  for (const [id, waiting] of e.waiting) {
    if (waiting.sid === sid) finish(e, id, { ok: false, code: 'session_changed' })
  }
}

/** Binds a stream to the current session; ends it immediately if there is no master. */
export function openStream (e: Elector, stream: StreamId): void {
  if (e.leader === null) e.io.terminal(stream, 'no_master')
  else e.streams.set(stream, e.leader.sid)
}

/** Reports the outcome of a local command; later outcomes are ignored. */
export function finish (e: Elector, id: CommandId, outcome: Outcome): void {
  if (e.waiting.delete(id)) e.io.commandResult(id, outcome)
}

/** Steps down as master and announces it, so that no node waits for the timeout. */
export function stepDown (e: Elector, retryAt: number, now: number): void {
  e.toFollower(retryAt)
  setLeader(e, null, now)
  e.beat(now)
}

/** Follows `from` as master, unless its term is too old (it gets a nack) or another master is live. */
export function accept (e: Elector, from: NodeId, leader: Leader, now: number): boolean {
  if (leader.master !== from) return false
  e.noteTerm(leader.term)
  if (!e.rules.mayFollow(e.options.quorum.mode, e.hardState.voted, leader)) return refuse(e, from, leader)
  const same = e.leader?.sid === leader.sid
  if (same && leader.term < (e.leader?.term ?? 0)) return false
  if (!same && (e.phase.role === 'master' || e.hasLiveMaster(now))) return false
  e.hardState.follow(leader)
  e.noteStorage()
  const { phase } = e
  const stands = phase.role === 'claim' && e.rules.candidacyStands(e.hardState.voted, phase.leader, true)
  if (phase.role !== 'follower' && !stands) e.toFollower(now)
  setLeader(e, leader, now)
  return true
}

function refuse (e: Elector, from: NodeId, leader: Leader): false {
  e.noteRefused(leader)
  if (e.rules.answersRefused()) e.send(from, { kind: 'nack', sid: leader.sid, promised: e.hardState.voted })
  return false
}

export function onAppend (e: Elector, from: NodeId, append: MessageOf<'append'>, now: number): void {
  const { leader } = append
  if (!accept(e, from, leader, now)) return
  if (e.rules.mayReplace(append.fresh, e.log.last())) {
    const adoption = e.log.adopt(append.body)
    if (adoption === 'gap') return e.send(from, { kind: 'need', sid: leader.sid })
    if (adoption === 'refused') return
    if (adoption === 'failed') {
      e.hardState.failed()
      return e.noteStorage()
    }
  }
  const own = e.log.last()
  if (own.term !== leader.term || !e.hardState.covers(leader.term)) return
  e.send(from, { kind: 'ack', sid: leader.sid, term: leader.term, seq: own.seq })
}
