import { fits } from '../wire.js'
import { nodeIds } from './protocol.js'
import { accept, finish, setLeader, stepDown } from './follower.js'
import type { Elector, MasterPhase } from './elector.js'
import type {
  Change, CommandId, Entry, Heartbeat, Leader, Message, MessageOf, NodeId, Outcome, CommandReceipt, Refusal
} from './protocol.js'

/** Writes the first entry of the new session, then announces the session. */
export function startSession (e: Elector, leader: Leader, now: number): void {
  const { sid, term } = leader
  const stored = write(e, { kind: 'session', id: `session:${sid}`, sid, term, payload: null })
  if (!stored) return e.toFollower(now + e.timing.heartbeat)
  const { seq } = e.log.last()
  const phase: MasterPhase = {
    role: 'master', since: now, startSeq: seq, votersSeq: seq, acks: new Map(), pending: new Map(),
    probe: null, refusing: null
  }
  e.enter(phase)
  setLeader(e, leader, now)
  e.io.becameMaster(leader)
  e.beat(now)
  replicate(e, e.liveness.alive(now))
}

function write (e: Elector, entry: Entry): boolean {
  if (e.log.append(entry)) return true
  e.hardState.failed()
  e.noteStorage()
  return false
}

/** Sends each peer the entries that the peer has not acknowledged; with `whole`, all entries. */
export function replicate (e: Elector, peers: readonly NodeId[], whole = false): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || leader === null) return
  for (const peer of peers) {
    const held = whole ? null : phase.acks.get(peer) ?? null
    e.send(peer, { kind: 'append', leader, fresh: e.log.last(), body: e.log.body(held) })
  }
}

export function tickMaster (e: Elector, phase: MasterPhase, now: number): void {
  const writable = e.writable(now)
  phase.refusing = e.hardState.storing ? null : phase.refusing ?? now
  const state = {
    mode: e.options.quorum.mode, reachable: e.votes(writable), needed: e.needed(), age: now - phase.since,
    refusing: phase.refusing === null ? null : now - phase.refusing, heirs: writable.length > 0
  }
  if (!e.rules.keepsMastership(state, e.timing)) return stepDown(e, now + e.timing.heartbeat, now)
  if (phase.probe !== null) tickProbe(e, phase, now)
  answerReplicated(e, now)
}

/** Whether a majority has entry `seq`; in available mode, whether another node has it if one is live. */
export function isReplicated (e: Elector, phase: MasterPhase, seq: number, now: number): boolean {
  const holders = [...phase.acks].filter(([, upTo]) => upTo >= seq).map(([id]) => id)
  if (e.options.quorum.mode === 'majority') {
    return e.rules.heldByEnough(e.votes([e.id, ...holders]), e.needed())
  }
  const others = e.writable(now).some((id) => id !== e.id)
  return e.rules.heldByEnough(holders.length, others ? 1 : 0)
}

export function onAck (e: Elector, from: NodeId, ack: MessageOf<'ack'>, now: number): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || ack.sid !== leader?.sid || ack.term !== leader.term) return
  phase.acks.set(from, Math.max(ack.seq, phase.acks.get(from) ?? 0))
  e.liveness.follows(from, leader)
  answerReplicated(e, now)
}

export function onNeed (e: Elector, from: NodeId, { sid }: MessageOf<'need'>): void {
  if (e.leader?.sid === sid) replicate(e, [from], true)
}

/** A follower voted in a higher term: raises the session's term above it, or steps down. */
export function onNack (e: Elector, _from: NodeId, { sid, promised }: MessageOf<'nack'>, now: number): void {
  e.noteTerm(promised.term)
  const { phase, leader } = e
  if (phase.role !== 'master' || leader === null || sid !== leader.sid) return
  if (e.rules.mayFollow(e.options.quorum.mode, promised, leader)) return
  const may = e.rules.mayRaiseTerm(e.options.quorum.mode, phase.probe === null)
  if (may) raiseTerm(e, leader, promised.term + 1, now)
  else stepDown(e, now + e.timing.preVote, now)
}

/** Raises the session's term above the term that a follower has voted in. Streams continue. */
function raiseTerm (e: Elector, leader: Leader, term: number, now: number): void {
  const stored = e.hardState.grant({ term, master: e.id })
  e.noteStorage()
  const entry: Entry = { kind: 'anoint', id: `anoint:${term}`, sid: leader.sid, term, payload: null }
  if (!stored || !write(e, entry)) return stepDown(e, now + e.timing.heartbeat, now)
  setLeader(e, { ...leader, term }, now)
  e.beat(now)
  replicate(e, e.liveness.alive(now))
}

/** Handles a heartbeat from another master: follows it, or decides which of the two yields. */
export function onOtherMaster (e: Elector, from: NodeId, other: Leader, beat: Heartbeat, now: number): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || leader === null) {
    accept(e, from, other, now)
    return
  }
  // The other master's heartbeat may be old: do not count followers that have switched to this node since.
  const mine = e.followers(now)
  const theirs = beat.followers.filter((id) => id !== e.id && !mine.includes(id))
  const stays = e.rules.staysMaster({
    mode: e.options.quorum.mode, verified: phase.probe === null,
    mine: { ...leader, following: mine.length, age: now - phase.since },
    other: { ...other, following: theirs.length, age: beat.age }, ageStep: e.timing.ageStep
  })
  if (!stays) {
    stepDown(e, now + e.timing.heartbeat, now)
    accept(e, from, other, now)
  } else if (other.term >= leader.term && e.rules.mayRaiseTerm(e.options.quorum.mode, phase.probe === null)) {
    raiseTerm(e, leader, Math.max(other.term, e.hardState.voted.term) + 1, now)
  } else {
    e.send(from, e.heartbeat(now))
  }
}

/** Replicates to a follower whose heartbeat shows that it is behind. */
export function catchUp (e: Elector, from: NodeId, beat: Heartbeat): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || leader === null || beat.role === 'master') return
  const follows = beat.leader?.sid === leader.sid && beat.leader.term === leader.term
  const { seq } = e.log.last()
  if (!follows || phase.acks.get(from) !== seq) replicate(e, [from])
}

/** After a pause, asks the peers whether this node is still master. */
export function startProbe (e: Elector, phase: MasterPhase, now: number): void {
  phase.probe = { nonce: ++e.rounds, since: now, askedAt: now, answers: new Set([e.id]) }
  e.sendTo(e.liveness.connections(), { kind: 'probe', nonce: phase.probe.nonce })
  // If this node is the only voter, its own answer is enough.
  countAnswers(e, phase, phase.probe)
}

function countAnswers (e: Elector, phase: MasterPhase, { answers }: { answers: ReadonlySet<NodeId> }): void {
  const needed = e.options.quorum.mode === 'majority' ? e.needed() : 2
  if (e.votes(answers) < needed) return
  phase.probe = null
  // Heartbeats that queued during the pause are outdated.
  e.liveness.forgetReports()
}

function tickProbe (e: Elector, phase: MasterPhase, now: number): void {
  const { probe } = phase
  if (probe === null) return
  const unanswered = {
    mode: e.options.quorum.mode, waited: now - probe.since, alive: e.liveness.alive(now).length,
    known: e.liveness.known().length
  }
  if (e.rules.trustsSilence(unanswered, e.timing)) phase.probe = null
  else if (now - probe.askedAt >= e.timing.vote) {
    probe.askedAt = now
    e.sendTo(e.liveness.connections(), { kind: 'probe', nonce: probe.nonce })
  }
}

export function onProbe (e: Elector, from: NodeId, { nonce }: MessageOf<'probe'>): void {
  e.send(from, { kind: 'probe-answer', nonce, leader: e.leader, promised: e.hardState.voted.term })
}

/** Checks each message during a probe, because it may confirm or disprove the mastership. */
export function onMessageWhileProbing (e: Elector, from: NodeId, message: Message, now: number): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || phase.probe === null || leader === null) return
  if (!e.rules.verifies(message, phase.probe.nonce)) return
  if (message.kind === 'probe-answer') {
    const { leader: other, promised } = message
    const replaced = other !== null && other.sid !== leader.sid && other.term >= leader.term
    if (replaced || promised > leader.term) return stepDown(e, now + e.timing.heartbeat, now)
  }
  phase.probe.answers.add(from)
  countAnswers(e, phase, phase.probe)
}

/** Handles a command at the master. A retry does not run again and gets the first answer. */
export function onCommand (
  e: Elector, from: NodeId, { id, sid, change }: MessageOf<'command'>, now: number
): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || leader === null || !e.rules.fitsSession(sid, leader.sid)) {
    return answer(e, from, id, sid, { ok: false, code: 'stale_session' })
  }
  // The mastership is unconfirmed: send no answer, so that the sender retries.
  if (!e.rules.mayActAsMaster(phase.probe === null)) return
  const open = phase.pending.get(id)
  if (open !== undefined) {
    open.origins.add(from)
    return
  }
  const entered = e.rules.enteredBefore(e.log.find(id)) ??
    enter(e, phase, leader, { ...change, id, from }, now)
  if (typeof entered === 'string') return answer(e, from, id, sid, { ok: false, code: entered })
  const due = Math.max(entered.seq, phase.startSeq)
  phase.pending.set(id, { receipt: entered, due, origins: new Set([from]) })
  answerReplicated(e, now)
}

function enter (
  e: Elector, phase: MasterPhase, leader: Leader, change: Change & Pick<Entry, 'id' | 'from'>, now: number
): CommandReceipt | Refusal {
  const { sid, term } = leader
  const { id } = change
  if (change.kind === 'voters') {
    const to = fits(nodeIds, change.payload) ? change.payload : []
    const settled = isReplicated(e, phase, phase.votersSeq, now)
    const may = e.rules.mayChangeVoters({ master: e.id, from: e.log.voters(), to, settled })
    if (may !== 'yes') return may
  }
  if (!write(e, { ...change, sid, term })) {
    stepDown(e, now + e.timing.heartbeat, now)
    return 'storage_failed'
  }
  const receipt = e.log.find(id) ?? { sid, term, seq: e.log.last().seq }
  if (change.kind === 'voters') phase.votersSeq = receipt.seq
  replicate(e, e.liveness.alive(now))
  return receipt
}

export function answerReplicated (e: Elector, now: number): void {
  const { phase, leader } = e
  if (phase.role !== 'master' || leader === null || !e.rules.mayActAsMaster(phase.probe === null)) return
  for (const [id, { receipt, due, origins }] of phase.pending) {
    if (!isReplicated(e, phase, due, now)) continue
    phase.pending.delete(id)
    for (const origin of origins) answer(e, origin, id, leader.sid, { ok: true, ...receipt })
  }
}

function answer (e: Elector, to: NodeId, id: CommandId, sid: string, outcome: Outcome): void {
  if (to === e.id) finish(e, id, outcome)
  else e.send(to, { kind: 'command-answer', id, sid, outcome })
}
