import type { Clock, EngineChunk, EngineTask, ModelCard } from '../../../kernel/index.js'
import type { Route, RouteQuery, VirtualModel } from '../service.js'
import { brokenLink, follow, intactLink, noInstance, requestLink } from './explain.js'
import type { ModelChain } from './explain.js'

export class VirtualModels {
  readonly #models = new Map<string, VirtualModel>()
  readonly #queries = new WeakMap<Route, RouteQuery>()

  /** Implements `Runners.virtual`. */
  add (modelId: string, model: VirtualModel): () => void {
    this.#models.set(modelId, model)
    return () => { this.#models.delete(modelId) }
  }

  cards (): ModelCard[] { return [...this.#models.values()].flatMap((model) => model.card() ?? []) }

  card (modelId: string): ModelCard | undefined { return this.#models.get(modelId)?.card() }

  ready (modelId: string): boolean { return this.#models.get(modelId)?.refusal() === null }

  /**
   * The route to a virtual model, which has no runner; undefined for any other model. Throws the model's
   * refusal, or `no_instance` for a task that the model does not support.
   */
  route (
    query: RouteQuery,
    { clock, newId, self: { nodeId, installId } }:
    { clock: Clock, newId: () => string, self: Pick<Route, 'nodeId' | 'installId'> }
  ): Route | undefined {
    const { modelId, capability, trace } = query
    const model = this.#models.get(modelId)
    if (model === undefined) return undefined
    const refusal = model.refusal()
    if (refusal !== null) throw refusal
    const { broken } = chainOf(modelId, model, capability)
    if (broken !== null) throw noInstance(modelId, broken, clock.now())
    const route: Route = {
      taskId: newId(), nodeId, installId, instanceId: '', runnerId: '', modelId, trace
    }
    this.#queries.set(route, query)
    return route
  }

  /** Like `Runners.open`; undefined for a route to a runner. */
  open (route: Route, task: EngineTask, signal: AbortSignal): AsyncIterable<EngineChunk> | undefined {
    const query = this.#queries.get(route)
    return query && this.#models.get(route.modelId)?.open(task, query, signal)
  }

  /** The availability chain of a virtual model, which needs no instance; undefined for other models. */
  chain (modelId: string, capability: string | null): ModelChain | undefined {
    const model = this.#models.get(modelId)
    return model && chainOf(modelId, model, capability)
  }
}

function chainOf (modelId: string, model: VirtualModel, capability: string | null): ModelChain {
  const [refusal, card] = [model.refusal(), model.card()]
  const refuses = card === undefined ? 'card' : 'runner'
  return follow((link) => {
    if (refusal !== null && link === refuses) {
      return brokenLink(refusal.reason, refusal.message.replace(/\.$/, ''),
        String(refusal.details['remedy'] ?? ''))
    }
    if (link === 'request') return requestLink({ capability, card: card ?? null, modelId })
    return intactLink('answered by the node itself')
  }, (link) => link === 'runner')
}
