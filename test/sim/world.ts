import { RULES, type Rules } from '../../plugins/cluster/election/rules.js'
import { Invariants } from './invariants.js'
import { LogTwin } from './log-twin.js'
import { Network, type Weather } from './network.js'
import { SimNode, type Directive, type MakeLog, type Watcher } from './node.js'
import { seeded } from './random.js'
import { Schedule } from './schedule.js'
import type { Message } from '../../plugins/cluster/election/protocol.js'
import type { Plan } from './plan.js'

export interface WorldOptions extends Pick<Plan, 'mode' | 'n' | 'voters' | 'seed' | 'newer'> {
  readonly weather: Weather
  /** Probability that a write is delayed. */
  readonly hiccups: number
}

/** Inspects every message in flight; a message for which it returns true is dropped. */
export type Intercept = (from: SimNode, to: SimNode, message: Message) => boolean

/** Replacements for parts of the simulated system. */
export interface Changes {
  readonly rules?: Partial<Rules>
  /** Whether disks confirm promises without storing them. */
  readonly forgetful?: boolean
  /** Replaces the stand-in for the control document. */
  readonly log?: MakeLog
}

const listed: MakeLog = (disk, first, write, changed) => new LogTwin(disk, first, write, changed)

/** Whether a worker follows a directive's master and has stored its promise for the master's term on disk. */
const follows = ({ leader, promised }: SimNode, { token: { term, master } }: Directive): boolean =>
  leader !== null && leader.term === term && leader.master === master && promised === term

/** Nodes, links and time in one run. Faults and load act on it. */
export class World {
  readonly schedule = new Schedule()
  readonly random: () => number
  readonly network: Network
  readonly nodes: readonly SimNode[]
  readonly check: Invariants
  messages = 0
  /** Drops the messages for which it returns true; null drops none. */
  intercept: Intercept | null = null
  /** Milliseconds from a fault that removed a healthy cluster's master to the next master. */
  readonly failovers: number[] = []
  #masterLostAt: number | null = null
  readonly #newer: number
  readonly #byId: ReadonlyMap<string, SimNode>

  constructor (plan: WorldOptions, { rules = {}, forgetful = false, log = listed }: Changes = {}) {
    this.random = seeded(plan.seed)
    this.#newer = plan.newer
    this.network = new Network(this.schedule, this.random, plan.weather)
    this.check = new Invariants(plan.mode, () => this.schedule.now)
    const ids = Array.from({ length: plan.n }, (_, i) => `n${i}`)
    const options = {
      quorum: plan.mode === 'B' ? 'majority' as const : 1,
      voters: ids.slice(0, plan.voters),
      rules: { ...RULES, ...rules },
      forgetful,
      hiccups: plan.hiccups,
      log
    }
    const watcher = this.#watcher()
    this.nodes = ids.map((id) => new SimNode(id, this.schedule, this.random, watcher, options))
    this.#byId = new Map(this.nodes.map((node) => [node.id, node]))
  }

  get now (): number { return this.schedule.now }

  /** The node with this number, modulo the number of nodes. */
  node (i: number): SimNode { return this.nodes[i % this.nodes.length]! }

  master (): SimNode | undefined { return this.nodes.find((node) => node.isMaster) }

  start (node: SimNode): void {
    if (node.up) return
    node.start()
    for (const other of this.nodes) if (other !== node) this.connect(node, other)
  }

  /** Crashes a node; other nodes notice immediately, unless their path to it is cut. */
  crash (node: SimNode): void {
    if (!node.up) return
    this.#masterGoes(node)
    node.crash()
    for (const other of this.nodes) if (!this.#apart(node, other)) other.unlink(node.id)
  }

  pause (node: SimNode): void {
    if (!node.up || node.paused) return
    this.#masterGoes(node)
    node.paused = true
  }

  /** Cuts the paths between two nodes, or only the one from `a` to `b`. */
  cut (a: SimNode, b: SimNode, how: 'hole' | 'reset', oneWay = false): void {
    this.network.cut(a.id, b.id, how)
    if (!oneWay) this.network.cut(b.id, a.id, how)
    if (how === 'hole') return
    a.unlink(b.id)
    b.unlink(a.id)
  }

  heal (): void {
    this.network.heal()
    this.reconnect()
  }

  /** Opens the connection between two nodes if both paths are open. Each side is notified separately. */
  connect (a: SimNode, b: SimNode): void {
    if (!a.up || !b.up || this.#apart(a, b)) return
    const { generation: ofA } = a
    const { generation: ofB } = b
    this.schedule.after(5 + this.random() * 50, () => {
      if (this.#apart(a, b) || a.generation !== ofA || b.generation !== ofB) return
      a.link(b.id)
      b.link(a.id)
    })
  }

  /** Tries to connect every pair of nodes that is not connected. */
  reconnect (): void {
    for (const a of this.nodes) {
      for (const b of this.nodes) {
        if (a.id < b.id && !(a.peers.has(b.id) && b.peers.has(a.id))) this.connect(a, b)
      }
    }
  }

  /** The list of voters as one node holds it. */
  voters (node: SimNode): readonly string[] { return node.log?.voters() ?? [] }

  /** Sends a directive, which is not a message from the election core. */
  direct (from: SimNode, to: SimNode, directive: Directive): void {
    this.#carry(from.id, to, () => {
      to.step((core) => {
        if (follows(to, directive)) this.check.carriesOut(to, directive, core.leader)
      })
    })
  }

  /** Delivers a message immediately, whatever is still in flight; for handwritten schedules. */
  deliver (from: SimNode, to: SimNode, message: unknown): void {
    to.step((core) => { core.receive(from.id, message, this.now) })
  }

  /** Stops measuring the failover time of an earlier fault, because this fault would distort it. */
  faultBegins (): void { this.#masterLostAt = null }

  #masterGoes (node: SimNode): void {
    const well = this.network.whole && this.nodes.every((other) => other.up && !other.frozen &&
      other.diskFault === 'good' && other.leader?.master === node.id)
    if (well && this.nodes.length > 2) this.#masterLostAt = this.now
  }

  #apart (a: SimNode, b: SimNode): boolean {
    return this.network.isCut(a.id, b.id) || this.network.isCut(b.id, a.id)
  }

  #carry (from: string, to: SimNode, take: () => void): void {
    const { generation } = to
    this.network.carry(from, to.id, { gone: () => to.generation !== generation, take })
  }

  #send (from: SimNode, to: SimNode, message: unknown): void {
    this.messages++
    this.#carry(from.id, to, () => { this.deliver(from, to, message) })
  }

  /** A newer version sends unknown fields, unknown kinds, and sometimes garbage. */
  #sendNewer (from: SimNode, to: SimNode, message: Message): void {
    if (this.random() < 0.03) this.#send(from, to, { kind: 'census', page: 1 })
    if (this.random() < 0.01) this.#send(from, to, { kind: message.kind })
    this.#send(from, to, { ...message, colour: 'green', nested: { of: [message.kind] } })
  }

  #watcher (): Watcher {
    const { check } = this
    return {
      send: (from, id, message) => {
        const to = this.#byId.get(id)!
        if (this.intercept?.(from, to, message as Message) === true) return
        const newer = (this.#newer >> this.nodes.indexOf(from)) & 1
        if (newer === 1) this.#sendNewer(from, to, message as Message)
        else this.#send(from, to, message)
      },
      terminal: (_node, stream) => { check.terminal(stream) },
      commandResult: (_node, id, outcome) => { check.answered(id, outcome) },
      becameMaster: (node, leader) => {
        check.becameMaster(node, leader)
        if (this.#masterLostAt !== null) this.failovers.push(this.now - this.#masterLostAt)
        this.#masterLostAt = null
      },
      sessionChanged: (node, next, previous) => { check.accepted(node, next, previous) },
      logChanged: (node) => { check.logChanged(node) }
    }
  }
}
