import { schemaChecker } from '../../../kernel/api/validate.js'
import { Reader } from '../reading/follow.js'
import { EventLog, firstAfter } from '../log/log.js'
import { Replication } from '../replication/replication.js'
import type { Position, Submission } from '../log/entries.js'
import { messageReader, type Found, type Input, type Message, type Search } from '../replication/messages.js'

export interface TwinNode {
  id: string
  log: EventLog
  machine: Replication
  reader: Reader
  /** Ids of the events that the node's reader received, in order. */
  read: string[]
  /** Indices of the events that the node's event stream would send with an id. */
  rising: number[]
  dropped: number
}

type Find = (have: readonly Position[]) => Found

export const readMessage = messageReader({ checker: schemaChecker })

interface Flying { from: string, to: string, message: Message, at: number, epoch: number }

/** Nodes with links that may lose, repeat and reorder messages. The test advances time. */
export class ClusterTwin {
  readonly nodes = new Map<string, TwinNode>()
  now = 0
  readonly full = new Set<string>()
  /** Delays in ms of the copies of a message; [] loses the message, two delays duplicate it. */
  fate: () => number[] = () => [1]
  readonly stored = new Map<string, Find>()
  #looking: { id: string, search: Search, find: Find }[] = []
  #flying: Flying[] = []
  #wakes = new Map<string, number>()
  #links = new Map<string, number>()
  #epoch = 0
  #count = 0
  readonly submitted: string[] = []
  readonly posted: { to: string, type: string, entries?: unknown[] }[] = []

  constructor (ids: readonly string[], make = () => new EventLog()) {
    for (const id of ids) this.start(id, make())
  }

  /** Starts a fresh process for the node. */
  start (id: string, log = new EventLog()): TwinNode {
    const machine = new Replication(log, {
      send: (to, message) => {
        const isFull = this.full.has(to) && message.type === 'page'
        if (!isFull) this.#post(id, to, message)
        return !isFull
      },
      // Deliver the result in a later step, as a disk would.
      find: (search) => {
        const find = this.stored.get(id) ?? (() => ({ base: null, entries: [] }))
        this.#looking.push({ id, search, find })
      },
      wake: (ms) => { this.#wakes.set(id, Math.min(this.#wakes.get(id) ?? Infinity, this.now + ms)) },
      dropped: ({ count }) => { node.dropped += count }
    })
    const node: TwinNode = { id, log, machine, reader: new Reader(log, 0), read: [], rising: [], dropped: 0 }
    this.nodes.set(id, node)
    return node
  }

  node (id: string): TwinNode { return this.nodes.get(id)! }

  /** Links exactly the nodes within each group; messages in transit on closed links are lost. */
  connect (...groups: (readonly string[])[]): void {
    const wanted = new Set(groups.flatMap((group) =>
      group.flatMap((a) => group.filter((b) => a < b).map((b) => `${a}|${b}`))))
    for (const link of [...this.#links.keys()].filter((link) => !wanted.has(link))) {
      this.#links.delete(link)
      this.#tellEnds(link, 'peerDown')
    }
    for (const link of wanted) {
      if (this.#links.has(link)) continue
      this.#links.set(link, ++this.#epoch)
      this.#tellEnds(link, 'peerUp')
    }
  }

  #tellEnds (link: string, type: 'peerUp' | 'peerDown'): void {
    const [a, b] = link.split('|') as [string, string]
    this.step(a, { type, peer: b })
    this.step(b, { type, peer: a })
  }

  /** Starts a session of these nodes that `master` leads. */
  elect (sid: string, master: string, among: readonly string[]): void {
    for (const id of among) this.step(id, { type: 'session', sid, isMaster: id === master, master })
  }

  happen (id: string, more: object = {}): string {
    const event = `e${++this.#count}`
    this.submitted.push(event)
    const submission: Submission = { id: event, at: new Date(this.now).toISOString(), origin: id,
      event: { Happened: { ...more } } }
    this.step(id, { type: 'local', submission })
    return event
  }

  step (id: string, input: Input): void {
    const node = this.node(id)
    node.machine.step(input, this.now)
    const { log, reader } = node
    const entries = log.entries.slice(firstAfter(log.entries, reader.position))
    for (const step of reader.steps(entries, log.base.idx)) {
      if (step.type === 'gap') continue
      node.read.push(step.entry.id)
      if (step.rising) node.rising.push(step.entry.idx)
    }
  }

  #post (from: string, to: string, message: unknown): void {
    const { type, entries } = message as { type: string, entries?: string }
    this.posted.push({ to, type,
      ...entries === undefined ? {} : { entries: JSON.parse(entries) as unknown[] } })
    const epoch = this.#links.get([from, to].sort().join('|'))
    if (from === to || epoch === undefined) return
    const copy = readMessage(JSON.parse(JSON.stringify(message)))!
    for (const delay of this.fate()) {
      this.#flying.push({ from, to, message: copy, at: this.now + delay, epoch })
    }
  }

  /** Advances time: messages arrive, and each node ticks every 100 ms. */
  run (ms: number): void {
    const until = this.now + ms
    let nextTick = this.now + 100
    while (this.now < until) {
      for (const { id, search, find } of this.#looking.splice(0)) {
        this.step(id, { type: 'found', search, found: find(search.want.have) })
      }
      const next = Math.min(until, nextTick, ...this.#flying.map((f) => f.at), ...this.#wakes.values())
      this.now = Math.max(this.now, next)
      for (const [id, at] of this.#wakes) {
        if (at <= this.now && this.#wakes.delete(id)) this.step(id, { type: 'tick' })
      }
      const due = this.#flying.filter((f) => f.at <= this.now).sort((a, b) => a.at - b.at)
      this.#flying = this.#flying.filter((f) => f.at > this.now)
      for (const { from, to, message, epoch } of due) {
        if (this.#links.get([from, to].sort().join('|')) !== epoch) continue
        this.step(to, { type: 'message', from, message })
      }
      if (this.now < nextTick) continue
      nextTick += 100
      for (const id of this.nodes.keys()) this.step(id, { type: 'tick' })
    }
  }

  /** Ids of the events in a node's log, in order. */
  ids (id: string): string[] { return this.node(id).log.entries.map((e) => e.id) }
}
