import type { Clock, NodeView } from '../../../kernel/cluster.js'
import type { Status } from '../election/core.js'
import type { MemberRecord } from './member.js'

export interface LinkedNode {
  readonly installId: string, readonly nodeId: string, readonly name: string
  readonly apiUrl: string | null
}

export interface DirectoryOptions {
  self: () => LinkedNode
  linked: () => readonly LinkedNode[]
  /** Members by install id, this node included. */
  members: () => readonly MemberRecord[]
  status: () => Pick<Status, 'liveNodes' | 'leader'>
  clock: Pick<Clock, 'now' | 'mono'>
  /** Monotonic time at which this node resumed after a suspension. */
  wokeAt: () => number
}

/** The identity with which a node last linked; `address` is the link's remote address. */
type MetNode = LinkedNode & { readonly address?: string }

export class Directory {
  readonly #options: DirectoryOptions
  /** The last sign of life of each node: wall time for display, monotonic time for durations. */
  readonly #seen = new Map<string, { at: number, mono: number }>()
  readonly #last = new Map<string, MetNode>()
  /** Nodes that announced a stop and have not reconnected since. */
  readonly #leaving = new Set<string>()

  constructor (options: DirectoryOptions) { this.#options = options }

  recordContact (installId: string): void {
    const { clock } = this.#options
    this.#seen.set(installId, { at: clock.now(), mono: clock.mono() })
  }

  recordIdentity (node: MetNode): void {
    this.#last.set(node.installId, node)
    this.#leaving.delete(node.installId)
    this.recordContact(node.installId)
  }

  /** Records that a node announced a stop, until it reconnects. */
  markLeaving (installId: string): void { this.#leaving.add(installId) }

  isLeaving (installId: string): boolean { return this.#leaving.has(installId) }

  forget (installId: string): void {
    this.#seen.delete(installId)
    this.#last.delete(installId)
    this.#leaving.delete(installId)
  }

  /** The other end of the latest link to a node, even after that link has closed. */
  addressOf (installId: string): string | undefined { return this.#last.get(installId)?.address }

  /** Wall time in ms of the last sign of life; undefined if there was none since this node started. */
  seenAt (installId: string): number | undefined {
    const { clock, self } = this.#options
    return installId === self().installId ? clock.now() : this.#seen.get(installId)?.at
  }

  /** Milliseconds of a node's silence, at most the time since this node resumed after a suspension. */
  silentMs (installId: string): number {
    const seen = this.#seen.get(installId)?.mono ?? -Infinity
    return this.#options.clock.mono() - Math.max(seen, this.#options.wokeAt())
  }

  /** All nodes: this one first, then the others by name. */
  nodes (): NodeView[] {
    const { liveNodes, leader } = this.#options.status()
    const self = this.#options.self()
    const linked = new Map(this.#options.linked().map((node) => [node.installId, node]))
    const others = this.#options.members().filter(({ installId }) => installId !== self.installId)
    const view = (node: LinkedNode, live: boolean): NodeView => ({
      ...node, live, leaving: this.#leaving.has(node.installId), self: node.installId === self.installId,
      master: leader?.master === node.installId
    })
    return [
      view(self, true),
      ...others.map((member) => {
        const there = linked.get(member.installId)
        const known = there ?? this.#last.get(member.installId) ?? fromRecord(member)
        return view(known, there !== undefined && liveNodes.includes(member.installId))
      }).sort((a, b) => a.name.localeCompare(b.name) || a.installId.localeCompare(b.installId))
    ]
  }

  resolve (ref: string): NodeView | undefined {
    const nodes = this.nodes()
    if (ref === 'local') return nodes[0]
    const named = nodes.filter(({ name }) => name === ref)
    return nodes.find(({ nodeId, installId }) => nodeId === ref || installId === ref) ??
      (named.length === 1 ? named[0] : undefined)
  }

  /** The current or last node id of a node, even of a removed member until `forget`. */
  nodeIdOf (installId: string): string | null {
    // Called often, so no list of nodes is built. `#last` also has the nodes that are linked now.
    const { self, members } = this.#options
    const own = self()
    if (installId === own.installId) return own.nodeId
    const last = this.#last.get(installId)
    if (last !== undefined) return last.nodeId
    const member = members().find((other) => other.installId === installId)
    return member === undefined ? null : fromRecord(member).nodeId
  }
}

const fromRecord = ({ installId, nodeId, name }: MemberRecord): LinkedNode =>
  ({ installId, nodeId: nodeId ?? installId, name, apiUrl: null })
