import { Reply } from '../../kernel/index.js'
import type { Cluster, NodeView, RouteRequest, Section, SvcError } from '../../kernel/index.js'
import { askNode } from './net/ask.js'
import type { StoreEntryFact } from './shared.js'

export interface StoreAccessParts {
  cluster: Cluster
  storeHosts: Section<{ since: string }>
  /** Install ids of store hosts that the cluster remembers, also when they have not been met. */
  remembered?: () => Iterable<string>
  storeModels: Section<StoreEntryFact>
  /** This node cannot know yet what the cluster has decided. */
  learning?: () => boolean
  error (
    reason: 'store_not_configured' | 'store_unreachable', message?: string, details?: Record<string, unknown>
  ): SvcError
}

/** Longest wait for what a store host answers to a request that was passed on, ms. */
const FORWARD_MS = 60_000

/** Where the stores of the cluster are. */
export class StoreAccess {
  readonly #parts: StoreAccessParts

  constructor (parts: StoreAccessParts) { this.#parts = parts }

  /** Store hosts: this node first, then those that are live, in the order of their install ids. */
  hosts (): NodeView[] {
    const { cluster, storeHosts, remembered } = this.#parts
    const known = new Set(remembered?.())
    const rank = (node: NodeView): number => node.self ? 0 : node.live ? 1 : 2
    // What a lost node said last still counts: a store that is away is no cluster without a store.
    const isHost = ({ installId, nodeId }: NodeView): boolean =>
      known.has(installId) || storeHosts.get('store', nodeId) !== undefined
    return cluster.nodes().filter(isHost)
      .sort((a, b) => rank(a) - rank(b) || (a.installId < b.installId ? -1 : 1))
  }

  /** The store host to ask. Throws `store_not_configured`, `store_unreachable`. */
  host (): NodeView {
    const [first] = this.hosts()
    if (first === undefined) throw this.none()
    if (!first.live) {
      throw this.#parts.error('store_unreachable', `The store host ${first.name} cannot be reached.`,
        { node: first.nodeId })
    }
    return first
  }

  /** Why no store host can be named: there is none, or this node has not been told of it yet. */
  none (): SvcError {
    const { error, learning } = this.#parts
    return learning?.() === true
      ? error('store_unreachable', 'This node is only just meeting the others and has not been told yet ' +
        'where the store is.', { retryAfterSeconds: 1 })
      : error('store_not_configured')
  }

  /** A store host that does not tell now what it has. */
  silent (): NodeView | undefined {
    const { storeHosts } = this.#parts
    return this.hosts().find(({ live, nodeId }) => !live || storeHosts.get('store', nodeId) === undefined)
  }

  /** What stores say of a model: those that can be asked first. `hosts`: for whoever asks of many models. */
  entries (modelId: string, hosts = this.hosts()): { node: NodeView, fact: StoreEntryFact }[] {
    return hosts.flatMap((node) => {
      const fact = this.#parts.storeModels.get(modelId, node.nodeId)
      return fact === undefined ? [] : [{ node, fact }]
    })
  }

  /**
   * Has the store host answer a request; what it answers is passed on as it is. Throws as `host`, and
   * `store_unreachable` where that host says it is none.
   */
  async forward (request: RouteRequest, call: {
    method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown, timeoutMs?: number
  }): Promise<Reply> {
    const host = this.host()
    if (host.self || request.member !== null) {
      throw this.#parts.error('store_unreachable', 'This node is no store host.')
    }
    const { timeoutMs = FORWARD_MS, ...rest } = call
    const { status, body, headers } = await askNode(this.#parts.cluster, host.installId, {
      ...rest, caller: request.caller, signal: request.signal, timeoutMs
    })
    const again = headers['retry-after']
    return new Reply(body, status, again === undefined ? {} : { 'retry-after': again })
  }
}
