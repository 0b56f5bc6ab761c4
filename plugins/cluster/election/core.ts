import {
  advanceCampaign, tally, advancePreVote, onBallot, onVote, onVoteRequest, onPreVote, onPreVoteAnswer,
  onStale, startPreVote, suspects
} from './campaign.js'
import { Elector, type Waiting } from './elector.js'
import { finish, onAppend, openStream, stepDown } from './follower.js'
import {
  catchUp, onMessageWhileProbing, onOtherMaster, onAck, onCommand, onNack, onNeed, onProbe, startProbe,
  tickMaster
} from './master.js'
import { RULES, readQuorum, type QuorumSetting, type Rules } from './rules.js'
import {
  readMessage, type Change, type CommandId, type HardStateRecord, type Io, type Leader, type Log,
  type Message, type MessageKind, type MessageOf, type NodeId, type Role, type StreamId
} from './protocol.js'
import { TICK, timingWith, type Timing } from './timing.js'

export interface Status {
  readonly role: Role, readonly leader: Leader | null, readonly term: number
  /** `lost`: too few reachable voters have a disk that accepts votes. */
  readonly quorum: 'ok' | 'lost'
  readonly stale: boolean, readonly partition: boolean, readonly knownNodes: readonly NodeId[]
  readonly liveNodes: readonly NodeId[], readonly eligible: boolean
  /** False while the disk refuses votes. */
  readonly storing: boolean
}

export function statusOf (e: Elector, now: number): Status {
  const live = [e.id, ...e.liveness.alive(now)]
  const votes = e.votes(e.options.quorum.mode === 'majority' ? e.writable(now) : live)
  const known = [e.id, ...e.liveness.known()]
  return {
    role: e.phase.role, leader: e.leader, term: e.hardState.voted.term,
    quorum: votes >= e.needed() ? 'ok' : 'lost', stale: !e.hasLiveMaster(now),
    partition: live.length < known.length, knownNodes: known, liveNodes: live, eligible: e.eligible(now),
    storing: e.hardState.storing
  }
}

export interface ElectionOptions {
  readonly id: NodeId, readonly quorum: QuorumSetting
  /** The last record given to `io.persist`; null on the first start. */
  readonly stored: HardStateRecord | null
  readonly timing?: Partial<Timing>, readonly rules?: Rules
}

type Handler<K extends MessageKind> = (e: Elector, from: NodeId, message: MessageOf<K>, now: number) => void

const HANDLERS: { readonly [K in MessageKind]: Handler<K> } = {
  heartbeat: onHeartbeat,
  'pre-vote': onPreVote,
  'pre-vote-answer': onPreVoteAnswer,
  ballot: onBallot,
  stale: onStale,
  claim: onVoteRequest,
  'claim-answer': onVote,
  append: onAppend,
  need: onNeed,
  ack: onAck,
  nack: onNack,
  probe: onProbe,
  'probe-answer': () => {},
  command: onCommand,
  'command-answer': onCommandAnswer
}

function onHeartbeat (e: Elector, from: NodeId, beat: MessageOf<'heartbeat'>, now: number): void {
  if (!e.liveness.report(from, beat)) return
  e.noteTerm(beat.promised)
  if (beat.role === 'master' && beat.leader?.master === from) onOtherMaster(e, from, beat.leader, beat, now)
  else if (e.leader?.master === from && e.rules.hasResigned(e.leader, beat)) e.lostAt ??= now
  catchUp(e, from, beat)
}

/**
 * The election and session of one node. Deterministic: it has no clock, sockets or files; callers pass
 * monotonic ms, `io` sends messages, `log` holds the data. Callbacks of `io` must not change the election.
 */
export class Election {
  readonly #e: Elector

  /** @throws RangeError for a quorum that both halves of a split could reach, or for inconsistent timing */
  constructor (options: ElectionOptions, io: Io, log: Log) {
    const { id, stored, rules = RULES } = options
    const quorum = readQuorum(options.quorum, log.voters())
    const timing = timingWith(options.timing)
    this.#e = new Elector({ id, quorum, rules, timing }, io, log, stored)
  }

  start (now: number): void {
    const e = this.#e
    e.retryAt = now + e.timing.grace * (1 + 0.3 * e.io.random())
    e.noteStorage()
  }

  /** Must be called about every `TICK` ms. */
  tick (now: number): void {
    const e = this.#e
    this.#step(now)
    if (now >= e.nextBeat) this.#beat(now)
    tickWaiting(e, now)
    const { phase } = e
    switch (phase.role) {
      case 'master': return tickMaster(e, phase, now)
      case 'pre-vote': return advancePreVote(e, phase, now)
      case 'campaign': return advanceCampaign(e, phase, now)
      case 'claim': return tally(e, phase, now)
      case 'follower': if (suspects(e, now)) startPreVote(e, now)
    }
  }

  /** Sends a heartbeat now, which postpones the next one from `tick`. */
  beat (now: number): void {
    this.#step(now)
    this.#beat(now)
    this.#e.nextBeat += TICK
  }

  #beat (now: number): void {
    const e = this.#e
    if (!e.hardState.storing) e.hardState.retry()
    e.noteStorage()
    e.beat(now)
  }

  /** Handles a message from the authenticated peer `from`. Returns false if it ignored the message. */
  receive (from: NodeId, value: unknown, now: number): boolean {
    const e = this.#e
    const message = readMessage(value)
    this.#step(now)
    if (message === null || !e.liveness.recordContact(from, now)) return false
    onMessageWhileProbing(e, from, message, now)
    const handle = HANDLERS[message.kind] as (e: Elector, from: NodeId, message: Message, now: number) => void
    handle(e, from, message, now)
    tickWaiting(e, now)
    return true
  }

  /** Records that a message outside the election arrived from a peer. */
  recordContact (peer: NodeId, now: number): void { this.#e.liveness.recordContact(peer, now) }

  up (peer: NodeId, now: number): void {
    const e = this.#e
    this.#step(now)
    e.liveness.up(peer, now)
    e.send(peer, e.heartbeat(now))
    // Commands sent over the previous connection may be lost, so resend them.
    if (e.leader?.master !== peer) return
    for (const waiting of e.waiting.values()) waiting.resendAt = now
    tickWaiting(e, now)
  }

  down (peer: NodeId, now: number): void {
    const e = this.#e
    this.#step(now)
    e.liveness.down(peer)
    if (e.leader?.master === peer) e.lostAt ??= now
  }

  forget (peer: NodeId): void { this.#e.liveness.forget(peer) }

  /** Submits or resubmits a command. One `io.commandResult` follows. */
  command (id: CommandId, payload: unknown, now: number): void {
    this.#step(now)
    submit(this.#e, id, { kind: 'command', payload }, now)
  }

  changeVoters (id: CommandId, voters: readonly NodeId[], now: number): void {
    this.#step(now)
    submit(this.#e, id, { kind: 'voters', payload: voters }, now)
  }

  /** Binds an open stream to the session; `io.terminal` ends it when the session ends. */
  openStream (stream: StreamId): void { openStream(this.#e, stream) }

  closeStream (stream: StreamId): void { this.#e.streams.delete(stream) }

  /** Steps down before a planned stop, so that others need not wait; no candidate for `timing.silence` ms. */
  resign (now: number): void {
    const e = this.#e
    e.eligibleAt = now + e.timing.silence
    if (e.phase.role === 'master') stepDown(e, now + e.timing.silence, now)
  }

  wake (now: number): void { this.#step(now) }

  get wokeAt (): number { return this.#e.wokeAt }

  /** True shortly after a suspension, when peers may seem missing only because their links closed. */
  isWaking (now: number): boolean {
    const { phase, wokeAt, timing } = this.#e
    return (phase.role === 'master' && phase.probe !== null) || now - wokeAt < timing.silence
  }

  /** Immediately reports that the disk refused a test write, so that the other nodes test their disks. */
  storageFailed (now: number): void {
    const e = this.#e
    this.#step(now)
    if (!e.hardState.storing) return
    e.hardState.failed()
    e.noteStorage()
    e.beat(now)
  }

  get role (): Role { return this.#e.phase.role }

  get leader (): Leader | null { return this.#e.leader }

  status (now: number): Status { return statusOf(this.#e, now) }

  /** Resets the peers' timers after a pause (suspend, GC), when peers only seem silent. */
  #step (now: number): void {
    const e = this.#e
    const gap = now - (e.lastStep ?? now)
    e.lastStep = now
    if (!e.rules.stalled(gap, e.timing)) return
    e.wokeAt = now
    e.liveness.resetTimers(now)
    e.leaderContactAt = Math.max(e.leaderContactAt, now - e.timing.sticky)
    if (e.phase.role === 'master') startProbe(e, e.phase, now)
    else e.toFollower(now + e.timing.sticky)
  }
}

/** Queues a command, which waits for a master for up to `timing.campaign` ms. */
function submit (e: Elector, id: CommandId, change: Change, now: number): void {
  if (e.waiting.has(id)) return
  e.waiting.set(id, { change, sid: null, deadline: now + e.timing.campaign, resendAt: now })
  tickWaiting(e, now)
}

/** Sends new commands, resends unanswered ones and fails those past their deadline. */
function tickWaiting (e: Elector, now: number): void {
  for (const [id, waiting] of e.waiting) {
    if (now >= waiting.deadline) {
      finish(e, id, { ok: false, code: waiting.sid === null ? 'no_master' : 'no_answer' })
    } else if (e.leader !== null && (waiting.sid === null || now >= waiting.resendAt)) {
      dispatch(e, e.leader, id, waiting, now)
    }
  }
}

/** Binds a command to the first session that it is sent to; retries go to that session only. */
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

function onCommandAnswer (e: Elector, from: NodeId, message: MessageOf<'command-answer'>): void {
  if (e.leader?.master !== from || e.waiting.get(message.id)?.sid !== message.sid) return
  finish(e, message.id, message.outcome)
}
