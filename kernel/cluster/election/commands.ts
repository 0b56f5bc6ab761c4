import { held, replicate } from './master.js'
import { finish, stepDown } from './sessions.js'
import type { Elector, Waiting } from './elector.js'
import type { MessageOf } from './messages.js'
import type { Mastering } from './roles.js'
import type { Change, CommandId, Entry, Leader, NodeId, Outcome, Receipt, Refusal } from './types.js'

/** Takes in a command at this node. It waits for a master as long as an election may take. */
export function submit (e: Elector, id: CommandId, change: Change, now: number): void {
  if (e.waiting.has(id)) return
  e.waiting.set(id, { change, sid: null, deadline: now + e.timing.campaign, resendAt: now })
  tickWaiting(e, now)
}

/** Sends what waits, sends again what may have been lost, and gives up what waited too long. */
export function tickWaiting (e: Elector, now: number): void {
  for (const [id, waiting] of e.waiting) {
    if (now >= waiting.deadline) {
      finish(e, id, { ok: false, code: waiting.sid === null ? 'no_master' : 'no_answer' })
    } else if (e.leader !== null && (waiting.sid === null || now >= waiting.resendAt)) {
      dispatch(e, e.leader, id, waiting, now)
    }
  }
}

/** Sends what has no answer yet once more, now. */
export function resend (e: Elector, now: number): void {
  for (const waiting of e.waiting.values()) waiting.resendAt = now
  tickWaiting(e, now)
}

/** A command is bound to the first session it is sent to; only the same session ever sees it again. */
function dispatch (e: Elector, leader: Leader, id: CommandId, waiting: Waiting, now: number): void {
  if (waiting.sid === null) {
    waiting.sid = leader.sid
    waiting.deadline = now + e.timing.command
  }
  waiting.resendAt = now + e.timing.heartbeat
  const command: MessageOf<'command'> = { kind: 'command', id, sid: waiting.sid, change: waiting.change }
  if (leader.master === e.id) onCommand(e, e.id, command, now)
  else e.send(leader.master, command)
}

/** A command reaches the master. A repeated one is not entered again and gets the first answer. */
export function onCommand (
  e: Elector, from: NodeId, { id, sid, change }: MessageOf<'command'>, now: number
): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || leader === null || !e.rules.fitsSession(sid, leader.sid)) {
    return answer(e, from, id, sid, { ok: false, code: 'stale_session' })
  }
  // Not sure to be master: silence here, the sender asks again.
  if (!e.rules.mayActAsMaster(phase.probe === null)) return
  const open = phase.pending.get(id)
  if (open !== undefined) {
    open.origins.add(from)
    return
  }
  const entered = e.rules.enteredBefore(e.ledger.find(id)) ??
    enter(e, phase, leader, { ...change, id, from }, now)
  if (typeof entered === 'string') return answer(e, from, id, sid, { ok: false, code: entered })
  const due = Math.max(entered.seq, phase.startSeq)
  phase.pending.set(id, { receipt: entered, due, origins: new Set([from]) })
  settle(e, now)
}

function enter (
  e: Elector, phase: Mastering, leader: Leader, change: Change & Pick<Entry, 'id' | 'from'>, now: number
): Receipt | Refusal {
  const { sid, term } = leader
  const { id } = change
  if (change.kind === 'voters') {
    const to = readVoters(change.payload)
    const settled = held(e, phase, phase.votersSeq, now)
    const may = e.rules.mayChangeVoters({ master: e.id, from: e.ledger.voters(), to, settled })
    if (may !== 'yes') return may
  }
  if (!e.ledger.append({ ...change, sid, term })) {
    e.promise.failed()
    e.noteStorage()
    stepDown(e, now + e.timing.heartbeat, now)
    return 'storage_failed'
  }
  const receipt = e.ledger.find(id) ?? { sid, term, seq: e.ledger.fresh().seq }
  if (change.kind === 'voters') phase.votersSeq = receipt.seq
  replicate(e, e.liveness.alive(now))
  return receipt
}

/** Node ids of a change of voters; none, which is refused, when it is anything else. */
function readVoters (payload: unknown): readonly NodeId[] {
  const fine = Array.isArray(payload) && payload.every((id) => typeof id === 'string' && id !== '')
  return fine ? payload as NodeId[] : []
}

/** Answers every command that enough nodes hold by now. */
export function settle (e: Elector, now: number): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || leader === null || !e.rules.mayActAsMaster(phase.probe === null)) return
  for (const [id, { receipt, due, origins }] of phase.pending) {
    if (!held(e, phase, due, now)) continue
    phase.pending.delete(id)
    for (const origin of origins) answer(e, origin, id, leader.sid, { ok: true, ...receipt })
  }
}

function answer (e: Elector, to: NodeId, id: CommandId, sid: string, outcome: Outcome): void {
  if (to === e.id) finish(e, id, outcome)
  else e.send(to, { kind: 'command-answer', id, sid, outcome })
}

export function onCommandAnswer (e: Elector, from: NodeId, message: MessageOf<'command-answer'>): void {
  if (e.leader?.master !== from || e.waiting.get(message.id)?.sid !== message.sid) return
  finish(e, message.id, message.outcome)
}
