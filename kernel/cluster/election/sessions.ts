import type { Elector } from './elector.js'
import type { CommandId, Leader, Outcome, SessionId, StreamId } from './types.js'

/**
 * Follows `next`, or nobody. When the session ends by that, its open streams get their one terminal and its
 * open commands their answer.
 */
export function setLeader (e: Elector, next: Leader | null, now: number): void {
  const old = e.leader
  e.leader = next
  e.heardAt = now
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

/** Binds a stream to the session of now. Without one it ends at once. */
export function openStream (e: Elector, stream: StreamId): void {
  if (e.leader === null) e.io.terminal(stream, 'no_master')
  else e.streams.set(stream, e.leader.sid)
}

/** Answers a command that entered here; later answers to the same one are dropped. */
export function finish (e: Elector, id: CommandId, outcome: Outcome): void {
  if (e.waiting.delete(id)) e.io.commandResult(id, outcome)
}

/** Ends the own mastership and tells everyone at once, so that nobody has to wait for silence. */
export function stepDown (e: Elector, retryAt: number, now: number): void {
  e.toFollower(retryAt)
  setLeader(e, null, now)
  e.beat(now)
}
