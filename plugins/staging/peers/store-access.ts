import { delay, type NodeView, type SvcError } from '../../../kernel/index.js'
import type { StagingContext } from '../manifest.js'
import type { StoreEntryFact } from '../types.js'

/** How long a new node waits for the store's address, and its poll interval, in ms. */
const LEARN_MS = 10_000
const LOOK_MS = 100

export class StoreAccess {
  readonly #ctx: StagingContext
  /** True while this node may not have the cluster's state yet. */
  readonly learning: () => boolean

  constructor (ctx: StagingContext, learning: () => boolean) {
    this.#ctx = ctx
    this.learning = learning
  }

  /** The store host, live or lost. Prefers this node, then live nodes, then the lowest install id. */
  known (): NodeView | undefined {
    const rank = (node: NodeView): number => node.self ? 0 : node.live ? 1 : 2
    return this.all().sort((a, b) => rank(a) - rank(b) || (a.installId < b.installId ? -1 : 1))[0]
  }

  /** Waits up to 10 s until the store host is known; without `surely`, only a new node waits. */
  async learned (signal: AbortSignal, surely = false): Promise<void> {
    for (let leftMs = LEARN_MS; leftMs > 0 && this.known() === undefined && (surely || this.learning());) {
      await delay(this.#ctx.clock, LOOK_MS, signal)
      leftMs -= LOOK_MS
    }
  }

  all (): NodeView[] {
    const { deps: { cluster }, sections: { storeHosts, stores } } = this.#ctx
    // Include lost nodes, because a cluster whose store is down still has a store. `stores` remembers store
    // hosts of which this node has no entry yet.
    const remembered = new Set([...stores.entries()].map(({ key }) => key))
    return cluster.nodes().filter(({ installId, nodeId }) =>
      remembered.has(installId) || storeHosts.get('store', nodeId) !== undefined)
  }

  /** The live store host. Throws `store_not_configured`, `store_unreachable`. */
  host (): NodeView {
    const host = this.known()
    if (host === undefined) throw this.none()
    if (!host.live) {
      throw this.#ctx.error('store_unreachable', `The store host ${host.name} cannot be reached.`,
        { node: host.nodeId })
    }
    return host
  }

  /** The error for a cluster without a store, or with a store that this node does not know yet. */
  none (): SvcError {
    if (!this.learning()) return this.#ctx.error('store_not_configured')
    const message = 'This node is still joining the cluster and does not know the store host yet.'
    return this.#ctx.error('store_unreachable', message, { retryAfterSeconds: 1, learning: true })
  }

  silent (): NodeView | undefined {
    const host = this.known()
    if (host === undefined) return undefined
    const tells = host.live && this.#ctx.sections.storeHosts.get('store', host.nodeId) !== undefined
    return tells ? undefined : host
  }

  /** The store's entry for a model. Loops pass `host`, so that it is looked up only once. */
  entry (modelId: string, host = this.known()): StoreEntryFact | undefined {
    return host === undefined ? undefined : this.#ctx.sections.storeModels.get(modelId, host.nodeId)
  }
}
