import { finish } from './follower.js'
import { onCommand } from './master.js'
import type { Elector, Waiting } from './elector.js'
import type { Change, CommandId, Leader, MessageOf, NodeId } from './protocol.js'

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

export function onCommandAnswer (e: Elector, from: NodeId, message: MessageOf<'command-answer'>): void {
  if (e.leader?.master !== from || e.waiting.get(message.id)?.sid !== message.sid) return
  finish(e, message.id, message.outcome)
}
