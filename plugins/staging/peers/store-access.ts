import { delay, Reply } from '../../../kernel/index.js'
import type { Clock, Cluster, NodeView, RouteRequest, Section, SvcError } from '../../../kernel/index.js'
import { askNode } from './ask.js'
import type { StoreEntryFact } from '../manager/catalogue.js'

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

/** How long, and how often, a node that has just started looks whether it has been told, ms. */
const LEARN_MS = 10_000
const LOOK_MS = 100
/** Longest wait for what a store host answers to a request that was passed on, ms. */
const FORWARD_MS = 60_000

/** Where the store of the cluster is, and what it says it has. */
export class StoreAccess {
  readonly #parts: StoreAccessParts

  constructor (parts: StoreAccessParts) { this.#parts = parts }

  /**
   * The store host of the cluster, live or not; undefined where there is none. Of several, which is a
   * mistake, this node, else the first by install id that can be reached.
   */
  known (): NodeView | undefined {
    const rank = (node: NodeView): number => node.self ? 0 : node.live ? 1 : 2
    return this.all().sort((a, b) => rank(a) - rank(b) || (a.installId < b.installId ? -1 : 1))[0]
  }

  /** Waits, up to 10 s, until a node that has just started has been told where the store is. */
  async learned (clock: Clock, signal: AbortSignal): Promise<void> {
    const { learning } = this.#parts
    for (let leftMs = LEARN_MS; leftMs > 0 && this.known() === undefined && learning?.() === true;) {
      await delay(clock, LOOK_MS, signal)
      leftMs -= LOOK_MS
    }
  }

  /** Every node that says, or said when it was last heard, that it has a store. */
  all (): NodeView[] {
    const { cluster, storeHosts, remembered } = this.#parts
    const known = new Set(remembered?.())
    // What a lost node said last still counts: a store that is away is no cluster without a store.
    return cluster.nodes().filter(({ installId, nodeId }) =>
      known.has(installId) || storeHosts.get('store', nodeId) !== undefined)
  }

  /** The store host, which can be reached. Throws `store_not_configured`, `store_unreachable`. */
  host (): NodeView {
    const host = this.known()
    if (host === undefined) throw this.none()
    if (!host.live) {
      throw this.#parts.error('store_unreachable', `The store host ${host.name} cannot be reached.`,
        { node: host.nodeId })
    }
    return host
  }

  /** Why no store host can be named: there is none, or this node has not been told of it yet. */
  none (): SvcError {
    const { error, learning } = this.#parts
    return learning?.() === true
      ? error('store_unreachable', 'This node is only just meeting the others and has not been told yet ' +
      'where the store is.', { retryAfterSeconds: 1 })
      : error('store_not_configured')
  }

  /** The store host while it does not tell what it has. */
  silent (): NodeView | undefined {
    const host = this.known()
    if (host === undefined) return undefined
    return !host.live || this.#parts.storeHosts.get('store', host.nodeId) === undefined ? host : undefined
  }

  /** What the store says of a model. `host`: for whoever asks of many models. */
  entry (modelId: string, host = this.known()): StoreEntryFact | undefined {
    return host === undefined ? undefined : this.#parts.storeModels.get(modelId, host.nodeId)
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
