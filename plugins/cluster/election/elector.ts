import { Liveness } from './liveness.js'
import { HardState } from './hard-state.js'
import { votesNeeded, votesOf, type Quorum, type Rules } from './rules.js'
import type {
  Ballot, Change, CommandId, HardStateRecord, Heartbeat, Io, Leader, Log, Message, NodeId, CommandReceipt,
  Role, SessionId, StreamId
} from './protocol.js'
import type { Timing } from './timing.js'

export interface Follower { readonly role: 'follower' }

export interface PreVoting {
  readonly role: 'pre-vote'
  readonly round: number
  readonly until: number
  /** Live peers whose answers are still missing. */
  readonly waiting: Set<NodeId>
  readonly grants: Set<NodeId>
  /** The master a peer named when it refused. */
  denied: Leader | null
}

export interface Campaigning {
  readonly role: 'campaign', readonly term: number, readonly until: number
  readonly peers: ReadonlySet<NodeId>
  readonly ballots: Map<NodeId, Ballot>
}

export interface RequestingVotes {
  readonly role: 'claim', readonly leader: Leader, readonly until: number
  readonly waiting: Set<NodeId>, readonly yes: Set<NodeId>, refused: boolean
}

export interface Pending {
  readonly receipt: CommandReceipt
  /** Answer once this sequence number is replicated; it is at least the first one of this session. */
  readonly due: number
  readonly origins: Set<NodeId>
}

/** A master's probe after a pause: it asks its peers whether they still follow it. */
export interface Probing {
  readonly nonce: number, readonly since: number, askedAt: number, readonly answers: Set<NodeId>
}

export interface MasterPhase {
  readonly role: 'master'
  readonly since: number
  /** Sequence number of the `session` entry. */
  readonly startSeq: number
  /** Sequence number of the newest `voters` entry of this session, or `startSeq`. */
  votersSeq: number
  /** Highest sequence number that each follower has acknowledged in this session. */
  readonly acks: Map<NodeId, number>
  readonly pending: Map<CommandId, Pending>
  probe: Probing | null
  /** Time at which the disk began to refuse writes; null while it accepts them. */
  refusing: number | null
}

export type Phase = Follower | PreVoting | Campaigning | RequestingVotes | MasterPhase

export const ROLE_TRANSITIONS: { readonly [R in Role]: readonly Role[] } = {
  follower: ['follower', 'pre-vote', 'campaign'],
  'pre-vote': ['follower', 'campaign'],
  campaign: ['follower', 'campaign', 'claim'],
  claim: ['follower', 'master'],
  master: ['follower']
}

export const FOLLOWER: Follower = { role: 'follower' }

export interface ElectorOptions {
  readonly id: NodeId, readonly quorum: Quorum, readonly timing: Timing, readonly rules: Rules
}

export interface Waiting {
  readonly change: Change
  /** The session to which the command was sent; null before that. */
  sid: SessionId | null
  deadline: number
  resendAt: number
}

/** State of one node's election, shared by the functions that handle followers, campaigns and the master. */
export class Elector {
  readonly options: ElectorOptions
  readonly io: Io
  readonly log: Log
  readonly liveness: Liveness
  readonly hardState: HardState
  readonly streams = new Map<StreamId, SessionId>()
  readonly waiting = new Map<CommandId, Waiting>()
  leader: Leader | null = null
  leaderContactAt = -Infinity
  /** Time at which the connection to the leader closed or the leader resigned. */
  lostAt: number | null = null
  seen: number
  /** No election starts before this time. */
  retryAt = 0
  /** Time before which this node is not a candidate, because it has resigned. */
  eligibleAt = 0
  lastStep: number | null = null
  /** Monotonic time of the last wake-up after the machine was suspended. */
  wokeAt = -Infinity
  nextBeat = 0
  beats = 0
  rounds = 0
  #phase: Phase = FOLLOWER
  #storing = true
  /** Session and term of the stale master that was refused last. */
  #refused = ''

  constructor (options: ElectorOptions, io: Io, log: Log, stored: HardStateRecord | null) {
    this.options = options
    this.io = io
    this.log = log
    this.liveness = new Liveness(options.timing.silence)
    this.hardState = new HardState(stored, (r) => io.persist(r), (ok) => options.rules.writeCounts(ok))
    this.seen = this.hardState.voted.term
  }

  get id (): NodeId { return this.options.id }
  get rules (): Rules { return this.options.rules }
  get timing (): Timing { return this.options.timing }
  get phase (): Phase { return this.#phase }

  /** Throws for a change that ROLE_TRANSITIONS does not allow, which is a defect in this module's callers. */
  enter (phase: Phase): void {
    const from = this.#phase.role
    if (!ROLE_TRANSITIONS[from].includes(phase.role)) throw new Error(`no move from ${from} to ${phase.role}`)
    this.#phase = phase
  }

  toFollower (retryAt: number): void {
    if (this.#phase.role !== 'follower') this.enter(FOLLOWER)
    this.retryAt = retryAt
  }

  /** Reports once when the disk starts or stops refusing writes. */
  noteStorage (): void {
    if (this.hardState.storing === this.#storing) return
    this.#storing = this.hardState.storing
    this.io.storageChanged(this.#storing)
  }

  noteRefused (stale: Leader): void {
    const which = `${stale.sid} ${stale.term}`
    if (which === this.#refused) return
    this.#refused = which
    this.io.staleRefused(stale, this.hardState.voted)
  }

  /** True if the disk works, this node has not just resigned, and in majority mode it is a voter. */
  eligible (now: number): boolean {
    const voter = this.options.quorum.mode === 'available' || this.log.voters().includes(this.id)
    return voter && this.hardState.storing && now >= this.eligibleAt
  }

  /** Votes needed for an election, and copies needed for an acknowledgement. */
  needed (): number { return votesNeeded(this.options.quorum, this.log.voters()) }

  votes (nodes: Iterable<NodeId>): number { return votesOf(this.options.quorum, this.log.voters(), nodes) }

  writable (now: number): NodeId[] {
    const others = this.liveness.alive(now).filter((id) => this.liveness.latest(id)?.durable !== false)
    return this.hardState.storing ? [this.id, ...others] : others
  }

  /** Whether this node has a live master, and so supports no other candidate. True on the master itself. */
  hasLiveMaster (now: number): boolean {
    if (this.leader === null) return false
    if (this.leader.master === this.id) return this.phase.role === 'master'
    return this.lostAt === null && this.liveness.connected(this.leader.master) &&
      this.rules.sticksToMaster(now - this.leaderContactAt, this.timing)
  }

  topTerm (): number { return Math.max(this.seen, this.hardState.voted.term) }

  noteTerm (term: number): void { if (term > this.seen) this.seen = term }

  ballot (now: number): Ballot {
    return { eligible: this.eligible(now), ...this.log.last(), weight: 0, nodeId: this.id }
  }

  send (to: NodeId, message: Message): void { this.io.send(to, message) }

  sendTo (peers: Iterable<NodeId>, message: Message): void {
    for (const peer of peers) this.io.send(peer, message)
  }

  followers (now: number): NodeId[] {
    const sid = this.leader?.sid
    return this.liveness.alive(now).filter((id) => this.liveness.recent(id, now)?.leader?.sid === sid)
  }

  heartbeat (now: number): Heartbeat {
    const { phase } = this
    const master = phase.role === 'master'
    return {
      kind: 'heartbeat', count: ++this.beats, boot: this.hardState.boot, role: phase.role,
      leader: this.leader, promised: this.hardState.voted.term, fresh: this.log.last(),
      followers: master ? this.followers(now) : [], age: master ? now - phase.since : 0,
      durable: this.hardState.storing
    }
  }

  beat (now: number): void {
    this.nextBeat = now + this.timing.heartbeat
    this.sendTo(this.liveness.connections(), this.heartbeat(now))
  }
}
