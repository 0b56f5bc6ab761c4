import { Liveness } from './liveness.js'
import { HardState } from './hard-state.js'
import { votesNeeded, votesOf } from './rules.js'
import type {
  Ballot, Change, CommandId, HardStateRecord, Heartbeat, Io, Leader, Log, Message, NodeId, CommandReceipt,
  Role, SessionId, StreamId
} from './protocol.js'
import type { Quorum, Rules } from './rules.js'
import type { Timing } from './timing.js'

export interface Follower { readonly role: 'follower' }

export interface PreVoting {
  readonly role: 'pre-vote'
  readonly round: number
  readonly until: number
  /** Live peers that have not answered. */
  readonly waiting: Set<NodeId>
  readonly grants: Set<NodeId>
  /** The master a peer named when it refused. */
  denied: Leader | null
}

export interface Campaigning {
  readonly role: 'campaign'
  readonly term: number
  readonly until: number
  /** Peers that were live when it began. */
  readonly peers: ReadonlySet<NodeId>
  readonly ballots: Map<NodeId, Ballot>
}

export interface RequestingVotes {
  readonly role: 'claim'
  readonly leader: Leader
  readonly until: number
  readonly waiting: Set<NodeId>
  readonly yes: Set<NodeId>
  refused: boolean
}

export interface Pending {
  readonly receipt: CommandReceipt
  /** Entry that must be held: never below the first of this session. */
  readonly due: number
  /** Nodes that wait for the answer. */
  readonly origins: Set<NodeId>
}

/** A master asks its peers after a pause before it acts again. */
export interface Probing {
  readonly nonce: number
  readonly since: number
  askedAt: number
  readonly answers: Set<NodeId>
}

export interface MasterPhase {
  readonly role: 'master'
  readonly since: number
  /** Number of the `session` entry. */
  readonly startSeq: number
  /** Number of the newest `voters` entry of this session; `startSeq` when there is none. */
  votersSeq: number
  /** Up to where each follower holds the data of this session. */
  readonly acks: Map<NodeId, number>
  readonly pending: Map<CommandId, Pending>
  probe: Probing | null
  /** Since when its disk has refused writes. */
  refusing: number | null
}

export type Phase = Follower | PreVoting | Campaigning | RequestingVotes | MasterPhase

/** Which role may come after which. */
export const ROLE_TRANSITIONS: { readonly [R in Role]: readonly Role[] } = {
  follower: ['follower', 'pre-vote', 'campaign'],
  'pre-vote': ['follower', 'campaign'],
  campaign: ['follower', 'campaign', 'claim'],
  claim: ['follower', 'master'],
  master: ['follower']
}

export const FOLLOWER: Follower = { role: 'follower' }

export interface ElectorOptions {
  readonly id: NodeId
  readonly quorum: Quorum
  readonly timing: Timing
  readonly rules: Rules
}

export interface Waiting {
  readonly change: Change
  /** The session it was sent to; null while no master is known. */
  sid: SessionId | null
  deadline: number
  resendAt: number
}

/** State of one node's election, shared by the modules of the phases. */
export class Elector {
  readonly options: ElectorOptions
  readonly io: Io
  readonly log: Log
  readonly liveness: Liveness
  readonly hardState: HardState
  readonly streams = new Map<StreamId, SessionId>()
  readonly waiting = new Map<CommandId, Waiting>()
  leader: Leader | null = null
  /** Time of the leader's last message. */
  heardAt = -Infinity
  /** Since when the connection to the leader is closed, or it is known to have resigned. */
  lostAt: number | null = null
  seen: number
  /** No election is started before. */
  retryAt = 0
  /** This node does not stand before: it has resigned. */
  standsAgainAt = 0
  lastStep: number | null = null
  /** Monotonic time of the last resume after a suspension. */
  wokeAt = -Infinity
  nextBeat = 0
  beats = 0
  rounds = 0
  #phase: Phase = FOLLOWER
  #storing = true
  /** The last master that was refused, with its session and term. */
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

  /** Changes the role. A move that the table does not know is a defect of the core. */
  enter (phase: Phase): void {
    const from = this.#phase.role
    if (!ROLE_TRANSITIONS[from].includes(phase.role)) throw new Error(`no move from ${from} to ${phase.role}`)
    this.#phase = phase
  }

  toFollower (retryAt: number): void {
    if (this.#phase.role !== 'follower') this.enter(FOLLOWER)
    this.retryAt = retryAt
  }

  /** Reports once when the disk begins or ceases to refuse. */
  noteStorage (): void {
    if (this.hardState.storing === this.#storing) return
    this.#storing = this.hardState.storing
    this.io.storageChanged(this.#storing)
  }

  /** Reports each refused master once. */
  noteRefused (stale: Leader): void {
    const which = `${stale.sid} ${stale.term}`
    if (which === this.#refused) return
    this.#refused = which
    this.io.staleRefused(stale, this.hardState.voted)
  }

  /** May be master: able to vote, not just resigned, and a voter where voters count. */
  eligible (now: number): boolean {
    const voter = this.options.quorum.mode === 'available' || this.log.voters().includes(this.id)
    return voter && this.hardState.storing && now >= this.standsAgainAt
  }

  /** Votes needed to be elected, and copies needed to acknowledge. */
  needed (): number { return votesNeeded(this.options.quorum, this.log.voters()) }

  votes (nodes: Iterable<NodeId>): number { return votesOf(this.options.quorum, this.log.voters(), nodes) }

  /** The live nodes whose disks take votes. */
  writable (now: number): NodeId[] {
    const others = this.liveness.alive(now).filter((id) => this.liveness.latest(id)?.durable !== false)
    return this.hardState.storing ? [this.id, ...others] : others
  }

  /** Whether a live master is known, so that no other one is supported. A master knows itself. */
  hasLiveMaster (now: number): boolean {
    if (this.leader === null) return false
    if (this.leader.master === this.id) return this.phase.role === 'master'
    return this.lostAt === null && this.liveness.connected(this.leader.master) &&
      this.rules.sticksToMaster(now - this.heardAt, this.timing)
  }

  /** The highest term this node knows of. */
  topTerm (): number { return Math.max(this.seen, this.hardState.voted.term) }

  noteTerm (term: number): void { if (term > this.seen) this.seen = term }

  ballot (now: number): Ballot {
    return { eligible: this.eligible(now), ...this.log.last(), weight: 0, nodeId: this.id }
  }

  send (to: NodeId, message: Message): void { this.io.send(to, message) }

  sendTo (peers: Iterable<NodeId>, message: Message): void {
    for (const peer of peers) this.io.send(peer, message)
  }

  /** The other nodes that follow this master. */
  followers (now: number): NodeId[] {
    const sid = this.leader?.sid
    return this.liveness.alive(now).filter((id) => this.liveness.recent(id, now)?.leader?.sid === sid)
  }

  heartbeat (now: number): Heartbeat {
    const { phase } = this
    const master = phase.role === 'master'
    return {
      kind: 'heartbeat',
      count: ++this.beats,
      boot: this.hardState.boot,
      role: phase.role,
      leader: this.leader,
      promised: this.hardState.voted.term,
      fresh: this.log.last(),
      followers: master ? this.followers(now) : [],
      age: master ? now - phase.since : 0,
      durable: this.hardState.storing
    }
  }

  /** Heartbeat to every connected peer. */
  beat (now: number): void {
    this.nextBeat = now + this.timing.heartbeat
    this.sendTo(this.liveness.connections(), this.heartbeat(now))
  }
}
