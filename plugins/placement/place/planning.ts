import { delay, SvcError } from '../../../kernel/index.js'
import type { ModelCard, NodeView } from '../../../kernel/index.js'
import { plan } from '../planner/index.js'
import type { ClusterView, InstanceMeta, Plan, Refusal, Sharding } from '../planner/index.js'
import { modelUnknown, refusalError, refuse } from '../errors.js'
import type { Facts, FactsReader } from '../facts.js'
import type { PlacementContext } from '../manifest.js'
import { viewOf } from './view.js'

/** Longest wait for nodes that have not told of themselves yet, ms. */
export const INFO_PENDING_MS = 15_000
/** How often it is looked again meanwhile, ms: readings of other nodes come without a sign. */
export const LOOK_MS = 250

/** A placement as it is asked for. */
export interface Ask {
  modelId: string
  sharding: Sharding
  /** Left out: the way in which the model's engine spreads it. */
  instanceMeta?: InstanceMeta | undefined
  minNodes: number
  /** Node ids, install ids or names; unknown ones are ignored. */
  excluded: readonly string[]
  force: boolean
}

/** What came out, the facts it was made of, and the way of spreading that counted. */
export interface Outcome { plan: Plan, card: ModelCard, facts: Facts, instanceMeta: InstanceMeta }

/** Everything that turns a question about a placement into an answer; nothing is placed here. */
export class Planning {
  readonly ctx: PlacementContext
  readonly facts: FactsReader

  constructor (ctx: PlacementContext, facts: FactsReader) {
    this.ctx = ctx
    this.facts = facts
  }

  /** The card of a model. Throws `model_unknown`; `info_pending` while a store that may know it is away. */
  async card (modelId: string): Promise<ModelCard> {
    const { models, bundle } = this.ctx.deps
    await models?.opened
    const card = this.known(modelId)
    if (card !== undefined) return card
    const silent = models?.silentStore()
    if (silent !== undefined) throw storeAway(modelId, silent)
    const known = [...models?.cards() ?? [], ...bundle.models()].map((one) => one.card.modelId)
    throw modelUnknown(modelId, [...new Set(known)].sort())
  }

  /** The card of a model, or undefined. */
  known (modelId: string): ModelCard | undefined {
    const { models, bundle } = this.ctx.deps
    return models?.card(modelId) ?? bundle.model(modelId)?.card
  }

  /** Models the cluster places by itself. Throws where a card cannot be read. */
  placedAlways (): readonly string[] {
    const { config: { autoplace }, deps: { bundle } } = this.ctx
    return autoplace ?? bundle.models().map(({ card }) => card.modelId)
  }

  /** True for a model that is placed without anybody asking for it: by itself, or by the next request. */
  returns (modelId: string): boolean {
    const { config: { autoplace, on_demand: onDemand }, deps: { bundle } } = this.ctx
    return onDemand || (autoplace?.includes(modelId) ?? bundle.model(modelId) !== undefined)
  }

  /** True for a model that an operator stopped. */
  isStopped (modelId: string): boolean { return this.ctx.sections.stopped.get(modelId) !== undefined }

  /** The cluster as the planner sees it. */
  view (facts: Facts, modelId: string): ClusterView {
    const { bundle, models, instances } = this.ctx.deps
    return viewOf({
      engines: bundle.engines(), staged: models?.stagedBytes(modelId) ?? new Map(),
      releasing: instances.releasing()
    }, facts, modelId)
  }

  /** What people call the node; its id when no node is called so. */
  nameOf (nodeId: string): string { return this.ctx.deps.cluster.resolve(nodeId)?.name ?? nodeId }

  /** What nodes are called, in one list; several in one text have commas between them. */
  refs (...lists: (readonly string[] | undefined)[]): string[] {
    const { cluster } = this.ctx.deps
    const all = lists.flatMap((list) => list ?? []).flatMap((ref) =>
      cluster.resolve(ref) === undefined ? ref.split(',').map((part) => part.trim()) : [ref])
    return [...new Set(all)].filter((ref) => ref !== '')
  }

  /** Node ids for what nodes are called; what no node is called stays as it is. */
  nodeIds (refs: readonly string[]): string[] {
    return refs.map((ref) => this.ctx.deps.cluster.resolve(ref)?.nodeId ?? ref)
  }

  /** Those of the names that no node has. */
  unknownNodes (refs: readonly string[]): string[] {
    return refs.filter((ref) => this.ctx.deps.cluster.resolve(ref) === undefined)
  }

  /**
   * Plans a placement. While nodes have not told enough, or still show memory that was just given back, it
   * looks again, for at most 15 s. Throws `model_unknown` and the typed reasons of the planner,
   * `info_pending` among them.
   */
  async plan (ask: Ask, signal: AbortSignal): Promise<Outcome> {
    const { ctx: { clock }, facts } = this
    const until = clock.mono() + INFO_PENDING_MS
    for (;;) {
      try {
        const now = facts.now()
        await this.card(ask.modelId)
        return this.look(ask, now)
      } catch (error) {
        if (!this.#passing(error) || clock.mono() >= until) throw error
      }
      await delay(clock, LOOK_MS, signal)
    }
  }

  /** Plans a placement by these facts, without any wait. Throws as `plan` does. */
  look ({ modelId, excluded, ...ask }: Ask, facts: Facts): Outcome {
    const card = this.known(modelId)
    if (card === undefined) throw modelUnknown(modelId, [])
    const view = this.view(facts, modelId)
    const instanceMeta = ask.instanceMeta ?? view.engines[card.engine]?.meta ?? 'Ring'
    const result = plan({ ...ask, card, instanceMeta, excluded: this.nodeIds(excluded) }, view)
    if (result.ok) return { plan: result.plan, card, facts, instanceMeta }
    throw unlinked(result, view) ?? refusalError(result)
  }

  /** A refusal that may be gone in a moment. */
  #passing (error: unknown): boolean {
    if (!(error instanceof SvcError)) return false
    return error.reason === 'info_pending' ||
      (error.reason === 'insufficient_memory' && this.ctx.deps.instances.settling())
  }
}

function storeAway (modelId: string, { nodeId, name }: NodeView): SvcError {
  const message = `No model is called ${modelId.slice(0, 200)} on the nodes that are there, and the store ` +
    `on ${name} does not tell at the moment what it has.`
  return refuse('info_pending', message,
    { param: 'model_id', pendingNodes: [{ nodeId, name, missing: ['store'] }] })
}

/**
 * The error in place of a refusal that would not stand if all nodes had told of connections: among several
 * live nodes each has one.
 */
function unlinked ({ reason }: Refusal, { nodes, edges }: ClusterView): SvcError | undefined {
  const byLinks = reason === 'no_connected_cycle' || reason === 'insufficient_memory'
  if (!byLinks || nodes.length < 2) return undefined
  const told = new Set(edges.map(({ from }) => from))
  const silent = nodes.filter(({ nodeId, participation }) => participation === 'full' && !told.has(nodeId))
  if (silent.length === 0) return undefined
  const pendingNodes = silent.map(({ nodeId, name }) => ({ nodeId, name, missing: ['connections'] }))
  const names = silent.slice(0, 4).map(({ name }) => name).join(', ')
  return refuse('info_pending', `Waiting for ${names} to tell of the connections to other nodes.`,
    { pendingNodes })
}
