import { STILL } from './network.js'
import { World, type Changes } from './world.js'
import type { Message, MessageKind } from '../../plugins/cluster/election/protocol.js'
import type { SimNode } from './node.js'
import type { SimMode } from './plan.js'

interface Caught { readonly from: SimNode, readonly to: SimNode, readonly message: Message }
type Which = (from: string, to: string, message: Message) => boolean

/**
 * A schedule written by hand without relevant randomness. Nodes are named n0, n1, …; the one with the
 * greatest number becomes the first master, because all logs are equal.
 */
export class Scene {
  readonly world: World
  /** Descriptions of the expectations that failed. */
  readonly wrong: string[] = []
  #which: Which | null = null
  #caught: Caught[] = []

  constructor (mode: SimMode, n: number, changes: Changes, voters = n) {
    this.world = new World({ mode, n, voters, seed: 1, newer: 0, weather: STILL, hiccups: 0 }, changes)
    this.world.intercept = (from, to, message) => {
      if (this.#which?.(from.id, to.id, message) !== true) return false
      this.#caught.push({ from, to, message })
      return true
    }
  }

  node (id: string): SimNode { return this.world.node(Number(id.slice(1))) }
  get elections (): number { return this.world.check.elections }

  /** Starts all nodes and waits for the first master. */
  begin (): void {
    for (const node of this.world.nodes) this.world.start(node)
    this.until('all follow a master', () => this.world.nodes.every((node) => node.leader !== null))
    this.run(3000)
  }

  run (ms: number): void {
    const end = this.world.now + ms
    this.world.schedule.run(end)
  }

  /** Advances time until `holds`; records a failure after `limit` ms. */
  until (what: string, holds: () => boolean, limit = 20_000): void {
    const end = this.world.now + limit
    while (!holds() && this.world.now < end) this.run(10)
    this.expect(what, holds())
  }

  expect (what: string, holds: boolean): void { if (!holds) this.wrong.push(`not so: ${what}`) }

  /** Holds back messages that match from now on. Replaces the previous filter. */
  catch (which: Which): void { this.#which = which }

  /** Delivers new messages again; messages that were held back before remain held back. */
  pass (): void { this.#which = null }

  caught (kind: MessageKind): readonly Caught[] {
    return this.#caught.filter(({ message }) => message.kind === kind)
  }

  /** Delivers the first caught message of a kind to a node now. */
  late (kind: MessageKind, to: string): void {
    const found = this.#caught.find(({ to: of, message }) => of.id === to && message.kind === kind)
    this.expect(`a ${kind} to ${to} was caught`, found !== undefined)
    if (found !== undefined) this.world.deliver(found.from, found.to, found.message)
  }

  /** Delivers a forged message. */
  say (from: string, to: string, message: Message): void {
    this.world.deliver(this.node(from), this.node(to), message)
  }

  /** Captures the messages that a node sends during `act` instead of sending them. */
  answers (act: () => void): Message[] {
    const before = this.#caught.length
    const which = this.#which
    this.#which = () => true
    act()
    this.#which = which
    return this.#caught.splice(before).map(({ message }) => message)
  }

  command (id: string, at: string): void {
    const node = this.node(at)
    node.step((core) => { core.command(id, null, this.world.now) })
  }

  stream (id: string, at: string): void {
    const node = this.node(at)
    this.world.check.opened(id, node, node.leader?.sid ?? null)
    node.step((core) => { core.openStream(id) })
  }

  ends (stream: string): number { return this.world.check.streams.get(stream)?.ends ?? -1 }

  acked (id: string): boolean { return this.world.check.acked.has(id) }

  holds (node: string, command: string): boolean {
    return this.node(node).disk.log.some((entry) => entry.id === command)
  }

  split (one: readonly string[], other: readonly string[]): void {
    for (const a of one) for (const b of other) this.world.cut(this.node(a), this.node(b), 'hole')
  }

  /** Heals everything, waits, and checks the final invariants. */
  finish (): readonly string[] {
    this.pass()
    for (const node of this.world.nodes) {
      node.resume('timers')
      this.world.start(node)
      node.diskFault = 'good'
    }
    this.world.heal()
    this.run(25_000)
    this.world.check.finish(this.world.nodes)
    return [...this.wrong, ...this.world.check.violations]
  }
}

/** A named schedule with its expectations. */
export interface Play {
  readonly name: string
  /** Returns the violations; empty if all rules hold. */
  readonly run: (changes: Changes) => readonly string[]
}
