import { delay } from '../../../kernel/index.js'
import type { NodeView, SvcError } from '../../../kernel/index.js'
import type { StagingContext } from '../manifest.js'
import type { StoreEntryFact } from '../types.js'

/** How long, and how often, a node that has just started looks whether it has been told, ms. */
const LEARN_MS = 10_000
const LOOK_MS = 100

export class StoreAccess {
  readonly #ctx: StagingContext
  readonly #learning: () => boolean

  /** `learning`: whether this node cannot know yet what the cluster has decided. */
  constructor (ctx: StagingContext, learning: () => boolean) {
    this.#ctx = ctx
    this.#learning = learning
  }

  /**
   * The store host of the cluster, live or not; undefined where there is none. Of several, which is a
   * mistake, this node, else the first by install id that can be reached.
   */
  known (): NodeView | undefined {
    const rank = (node: NodeView): number => node.self ? 0 : node.live ? 1 : 2
    return this.all().sort((a, b) => rank(a) - rank(b) || (a.installId < b.installId ? -1 : 1))[0]
  }

  /** Waits up to 10 s until a node that has just started knows the store; any node with `surely`. */
  async learned (signal: AbortSignal, surely = false): Promise<void> {
    for (let leftMs = LEARN_MS; leftMs > 0 && this.known() === undefined && (surely || this.#learning());) {
      await delay(this.#ctx.clock, LOOK_MS, signal)
      leftMs -= LOOK_MS
    }
  }

  all (): NodeView[] {
    const { deps: { cluster }, sections: { storeHosts, stores } } = this.#ctx
    // What a lost node said last still counts: a store that is away is no cluster without a store. The
    // cluster also remembers those that this node has not met yet.
    const remembered = new Set([...stores.entries()].map(({ key }) => key))
    return cluster.nodes().filter(({ installId, nodeId }) =>
      remembered.has(installId) || storeHosts.get('store', nodeId) !== undefined)
  }

  /** The store host, which can be reached. Throws `store_not_configured`, `store_unreachable`. */
  host (): NodeView {
    const host = this.known()
    if (host === undefined) throw this.none()
    if (!host.live) {
      throw this.#ctx.error('store_unreachable', `The store host ${host.name} cannot be reached.`,
        { node: host.nodeId })
    }
    return host
  }

  get learning (): boolean { return this.#learning() }

  /** Why no store host can be named: there is none, or this node has not been told of it yet. */
  none (): SvcError {
    if (!this.learning) return this.#ctx.error('store_not_configured')
    const message = 'This node is only just meeting the others and has not been told yet where the store is.'
    return this.#ctx.error('store_unreachable', message, { retryAfterSeconds: 1, learning: true })
  }

  silent (): NodeView | undefined {
    const host = this.known()
    if (host === undefined) return undefined
    const tells = host.live && this.#ctx.sections.storeHosts.get('store', host.nodeId) !== undefined
    return tells ? undefined : host
  }

  /** What the store says of a model. `host`: for whoever asks of many models. */
  entry (modelId: string, host = this.known()): StoreEntryFact | undefined {
    return host === undefined ? undefined : this.#ctx.sections.storeModels.get(modelId, host.nodeId)
  }
}
