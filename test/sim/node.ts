import { Election } from '../../plugins/cluster/election/core.js'
import type {
  Io, Leader, Log, Message, NodeId, Outcome, StreamEnd, Token
} from '../../plugins/cluster/election/protocol.js'
import type { QuorumSetting, Rules } from '../../plugins/cluster/election/rules.js'
import type { Disk, Write } from './log-twin.js'
import type { Schedule } from './schedule.js'

export type DiskFault = 'good' | 'slow' | 'failing'

/** Callbacks with which a node reports to the simulated world. */
export interface Watcher {
  send (from: SimNode, to: NodeId, message: unknown): void
  terminal (node: SimNode, stream: string, why: StreamEnd): void
  commandResult (node: SimNode, id: string, outcome: Outcome): void
  becameMaster (node: SimNode, leader: Leader): void
  sessionChanged (node: SimNode, next: Leader | null, previous: Leader | null): void
  logChanged (node: SimNode): void
}

/** Creates a node's command log on its disk. `first`: the initial voters. */
export type MakeLog =
  (disk: Disk, first: readonly NodeId[], write: Write, changed: () => void) => Log

export interface NodeOptions {
  readonly quorum: QuorumSetting
  readonly voters: readonly NodeId[]
  readonly rules: Rules
  /** Whether the disk confirms writes but stores no promise, only the number of starts. */
  readonly forgetful: boolean
  /** Probability that a good disk delays a write by up to 0.1 s, and with it the answer that follows. */
  readonly hiccups: number
  readonly log: MakeLog
}

/** A master's order to a worker to run an instance. */
export interface Directive { readonly token: Token, readonly sid: string, readonly instance: string }

const SLOW_MS = 2500

/** One process with its disk: the core under test, and the faults a process can have. */
export class SimNode {
  readonly id: NodeId
  readonly disk: Disk = { hardState: null, log: [] }
  core: Election | null = null
  log: Log | null = null
  paused = false
  diskFault: DiskFault = 'good'
  /** Number of starts; an event for an earlier start is ignored. */
  generation = 0
  /** Term of the last promise that the disk confirmed. */
  promised = 0
  /** Instances that run on this node, with their session. */
  readonly running = new Map<string, string>()
  /** Nodes to which this node considers itself connected. */
  readonly peers = new Set<NodeId>()
  readonly #schedule: Schedule
  readonly #random: () => number
  readonly #watch: Watcher
  readonly #options: NodeOptions
  #outbox: { to: NodeId, message: unknown }[] = []
  #writing = 0
  #busyUntil = 0
  #held: (() => void)[] = []

  constructor (id: NodeId, schedule: Schedule, random: () => number, watch: Watcher, options: NodeOptions) {
    this.id = id
    this.#schedule = schedule
    this.#random = random
    this.#watch = watch
    this.#options = options
  }

  get up (): boolean { return this.core !== null }
  get frozen (): boolean { return this.paused || this.#schedule.now < this.#busyUntil }
  get isMaster (): boolean { return this.core?.role === 'master' }
  get leader (): Leader | null { return this.core?.leader ?? null }

  start (): void {
    if (this.core !== null) return
    this.generation++
    this.paused = false
    this.#busyUntil = 0
    this.#held = []
    this.#outbox = []
    const { voters, quorum, rules, log: makeLog } = this.#options
    const log = makeLog(this.disk, voters, () => this.#write(), () => { this.#watch.logChanged(this) })
    this.log = log
    this.core = new Election({ id: this.id, quorum, stored: this.disk.hardState, rules }, this.#io(), log)
    this.step((core) => { core.start(this.#schedule.now) })
    const { generation } = this
    const loop = (): void => {
      if (this.generation !== generation || this.core === null) return
      if (!this.frozen) this.step((core) => { core.tick(this.#schedule.now) })
      this.#schedule.after(200, loop)
    }
    this.#schedule.after(this.#random() * 200, loop)
  }

  /** The process exits immediately; unsent messages are lost, its disk survives. */
  crash (): void {
    this.core = null
    this.generation++
    this.running.clear()
    this.peers.clear()
  }

  /** Resumes the process; the held messages arrive in one burst, before or after its timers run. */
  resume (first: 'timers' | 'messages' = this.#random() < 0.5 ? 'timers' : 'messages'): void {
    if (!this.paused) return
    this.paused = false
    const tick = (): void => { this.#act((core) => { core.tick(this.#schedule.now) }) }
    if (first === 'timers') this.#held.unshift(tick)
    this.#drain()
  }

  link (peer: NodeId): void {
    this.step((core) => {
      if (this.peers.has(peer)) return
      this.peers.add(peer)
      core.up(peer, this.#schedule.now)
    })
  }

  unlink (peer: NodeId): void {
    this.step((core) => { if (this.peers.delete(peer)) core.down(peer, this.#schedule.now) })
  }

  /** Runs a step of the process, deferred while paused. Messages leave when its writes are done. */
  step (act: (core: Election) => void): void {
    if (this.core === null) return
    if (this.frozen || this.#held.length > 0) this.#held.push(() => { this.#act(act) })
    else this.#act(act)
  }

  #act (act: (core: Election) => void): void {
    if (this.core === null) return
    act(this.core)
    const outbox = this.#outbox
    const wait = this.#writing
    this.#outbox = []
    this.#writing = 0
    const flush = (): void => { for (const { to, message } of outbox) this.#watch.send(this, to, message) }
    if (wait === 0) return flush()
    this.#busyUntil = this.#schedule.now + wait
    this.#held.unshift(flush)
    const { generation } = this
    this.#schedule.after(wait, () => { if (this.generation === generation) this.#drain() })
  }

  #drain (): void {
    while (this.#held.length > 0 && !this.frozen) this.#held.shift()!()
  }

  #write (): { ok: boolean, wrote: boolean } {
    if (this.diskFault === 'failing') return { ok: false, wrote: this.#random() < 0.3 }
    const slow = this.diskFault === 'slow'
    // Several writes of one step reach the disk together.
    if (slow) this.#writing = Math.max(this.#writing, 100 + this.#random() * SLOW_MS)
    else if (this.#random() < this.#options.hiccups) {
      this.#writing = Math.max(this.#writing, this.#random() * 100)
    }
    return { ok: true, wrote: true }
  }

  #io (): Io {
    const watch = this.#watch
    return {
      send: (to, message: Message) => { this.#outbox.push({ to, message }) },
      persist: (record) => {
        const { ok, wrote } = this.#write()
        const { term = 0, votedFor = null } = this.disk.hardState ?? {}
        if (wrote) this.disk.hardState = this.#options.forgetful ? { ...record, term, votedFor } : record
        if (ok) this.promised = record.term
        return ok
      },
      random: this.#random,
      terminal: (stream, why) => { watch.terminal(this, stream, why) },
      commandResult: (id, outcome) => { watch.commandResult(this, id, outcome) },
      becameMaster: (leader) => { watch.becameMaster(this, leader) },
      sessionChanged: (next, previous) => { watch.sessionChanged(this, next, previous) },
      storageChanged: () => {},
      staleRefused: () => {}
    }
  }
}
