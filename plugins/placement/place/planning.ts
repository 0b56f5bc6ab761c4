import { badField, delay, offPlugin, SvcError, type ModelCard, type NodeView } from '../../../kernel/index.js'
import { bytesOf, evictions } from '../planner/evict.js'
import { plan } from '../planner/index.js'
import type { ClusterView, InstanceMeta, NodeFacts, Plan, PlanRequest, Refusal } from '../planner/types.js'
import { modelUnknown, refusalError, refuse } from '../errors.js'
import type { Facts, FactsReader } from '../facts.js'
import type { PlacementContext } from '../manifest.js'
import type { SystemRole } from '../service.js'
import { virtualModel, type NodeProblem } from '../../staging/service.js'
import type { StoredPolicy } from './policies.js'
import { viewOf } from './view.js'

/** The engine that runs language models in each file format. */
export const ENGINES = { gguf: 'llama-server', onnx: 'onnx-lm', safetensors: 'openai-programs' } as const
/** Limit in ms on the wait for missing readings, after which the request is refused. */
export const INFO_PENDING_MS = 15_000
/** Milliseconds between planning attempts; polls because no event announces other nodes' new readings. */
export const POLL_MS = 250

export interface PlanningInput extends Omit<PlanRequest, 'card' | 'instanceMeta'> {
  modelId: string
  /** Default: Ring or LlamaRpc, whichever the model's engine prefers. */
  instanceMeta?: InstanceMeta | undefined
  chatTemplate?: string | undefined
  /** Name of the program that runs the model, of an engine with several. */
  engine?: string | undefined
  /** Node ids, install ids or names; unknown ones are ignored. */
  excluded: readonly string[]
}

/** `engine`: the program that runs the model, if one was chosen or several nodes must run the same one. */
export interface Outcome {
  plan: Plan, card: ModelCard, facts: Facts, instanceMeta: InstanceMeta, engine: string | undefined
}

/** Plans placements without changing anything. Gives other modules the plugin context and the facts. */
export class Planning {
  readonly ctx: PlacementContext
  readonly facts: FactsReader
  readonly roles = new Map<string, SystemRole>()

  constructor (ctx: PlacementContext, facts: FactsReader) {
    this.ctx = ctx
    this.facts = facts
  }

  /** Finds a model's card. Throws `model_unknown`, or `info_pending` if an unreachable store may have it. */
  async card (modelId: string): Promise<ModelCard> {
    const { models, bundle, declarations } = this.ctx.deps
    await models?.opened
    const card = this.known(modelId)
    if (card !== undefined) return card
    if (models?.isVirtual(modelId) === true) throw virtualModel(modelId)
    const silent = models?.silentStore()
    if (silent !== undefined) throw storeAway(modelId, silent)
    const known = [...models?.cards() ?? [], ...bundle.models()].map((one) => one.card.modelId)
    throw modelUnknown(modelId, [...new Set(known)].sort(), offPlugin(declarations, 'models', modelId))
  }

  known (modelId: string): ModelCard | undefined {
    const { models, bundle } = this.ctx.deps
    return models?.card(modelId) ?? bundle.model(modelId)?.card
  }

  /** The models to keep placed, from the setting `autoplace`. Throws if a card cannot be read. */
  placedAlways (): readonly string[] {
    const { config: { autoplace }, deps: { bundle } } = this.ctx
    return autoplace ?? bundle.models().map(({ card }) => card.modelId)
  }

  /**
   * True if the model would be placed again after its last instance is removed: by autoplace, on demand, by
   * its policy or for a role.
   */
  returns (modelId: string): boolean {
    const { config: { autoplace }, deps: { bundle } } = this.ctx
    const chosen = [...this.roles.values()].map((role) => role.wanted())
      .some(({ models, waits }) => !waits && models.includes(modelId))
    return this.onDemand(modelId) || this.minimum(modelId) > 0 || chosen ||
      (autoplace?.includes(modelId) ?? bundle.model(modelId) !== undefined)
  }

  policy (modelId: string): StoredPolicy | undefined { return this.ctx.sections.policies.get(modelId) }

  onDemand (modelId: string): boolean { return this.policy(modelId)?.demand ?? this.ctx.config.on_demand }

  /** The number of instances that the model's policy keeps. */
  readonly minimum = (modelId: string): number => this.policy(modelId)?.replicas?.min ?? 0

  isStopped (modelId: string): boolean { return this.ctx.sections.stopped.get(modelId) !== undefined }

  drained (): Set<string> {
    return new Set([...this.ctx.sections.drainedNodes.entries()].map(({ key }) => key))
  }

  view (facts: Facts, modelId: string): ClusterView {
    const { bundle, models, instances } = this.ctx.deps
    return viewOf({
      engines: bundle.engines(), staged: models?.stagedBytes(modelId) ?? new Map(),
      releasing: instances.releasing(), drained: this.drained()
    }, facts, modelId)
  }

  nameOf (nodeId: string): string { return this.ctx.deps.cluster.resolve(nodeId)?.name ?? nodeId }

  /** Merges lists of node references (id, install id, name); an item may be a comma-separated list. */
  refs (...lists: (readonly string[] | undefined)[]): string[] {
    const { cluster } = this.ctx.deps
    const all = lists.flatMap((list) => list ?? []).flatMap((ref) =>
      cluster.resolve(ref) === undefined ? ref.split(',').map((part) => part.trim()) : [ref])
    return [...new Set(all)].filter((ref) => ref !== '')
  }

  nodeIds (refs: readonly string[]): string[] {
    return refs.map((ref) => this.ctx.deps.cluster.resolve(ref)?.nodeId ?? ref)
  }

  unknownNodes (refs: readonly string[]): string[] {
    return refs.filter((ref) => this.ctx.deps.cluster.resolve(ref) === undefined)
  }

  /**
   * Plans a placement. Retries for at most 15 s while readings are missing or still include memory that has
   * just been freed. Throws `model_unknown` and the planner's refusals, including `info_pending`.
   */
  async plan (ask: PlanningInput, signal: AbortSignal): Promise<Outcome> {
    const { ctx: { clock }, facts } = this
    const until = clock.mono() + INFO_PENDING_MS
    for (;;) {
      await this.readMemory()
      try {
        const now = facts.now()
        await this.card(ask.modelId)
        this.checkSource(ask.modelId)
        return await this.#withRoom(ask, now)
      } catch (error) {
        if (!this.#passing(error) || clock.mono() >= until) throw error
      }
      await delay(clock, POLL_MS, signal)
    }
  }

  /** Refreshes the memory readings of this node: a model may just have been unloaded there. */
  async readMemory (): Promise<void> {
    await this.ctx.deps.machine.freeVram()
    await this.ctx.deps.state.read()
  }

  /** Throws `no_source` if no node has the model's files and no unreachable store may have them. */
  checkSource (modelId: string): void {
    const { models, bundle } = this.ctx.deps
    if (models === undefined || bundle.model(modelId) !== undefined) return
    if (models.copies(modelId).length > 0 || models.silentStore() !== undefined) return
    throw refuse('no_source', `No node has the files of ${modelId}, only its card. Download them ` +
      `first: \`svc pull ${modelId}\`.`, { param: 'model_id' })
  }

  /** Throws `insufficient_disk` if the model files do not fit on the disk of one of these nodes. */
  async checkRoom (modelId: string, nodeIds: readonly string[]): Promise<void> {
    const full = await this.ctx.deps.models?.withoutRoom(modelId, nodeIds) ?? []
    if (full.length > 0) throw this.#noRoom(modelId, full)
  }

  /** Plans on nodes with enough disk space, excluding the nodes in `full`, which lack it. */
  async #withRoom (ask: PlanningInput, now: Facts, full: readonly NodeProblem[] = []): Promise<Outcome> {
    const { modelId } = ask
    let outcome: Outcome
    try {
      outcome = this.look({ ...ask, excluded: [...ask.excluded, ...full.map(({ nodeId }) => nodeId)] }, now)
    } catch (error) {
      throw full.length === 0 || this.#passing(error) ? error : this.#noRoom(modelId, full)
    }
    const { plan: { instanceMeta, ranks } } = outcome
    // Only the driver needs the model files; donors get the weights from the driver.
    const holders = instanceMeta === 'LlamaRpc' ? ranks.slice(0, 1) : ranks
    const more = await this.ctx.deps.models?.withoutRoom(modelId, holders.map(({ nodeId }) => nodeId)) ?? []
    return more.length === 0 ? outcome : await this.#withRoom(ask, now, [...full, ...more])
  }

  #noRoom (modelId: string, full: readonly NodeProblem[]): SvcError {
    const sums = full.map(({ nodeId, message }) => `${this.nameOf(nodeId)}: ${message}`).join(' ')
    return refuse('insufficient_disk', `The files of ${modelId} do not fit on the disk. ${sums}`,
      { nodes: full })
  }

  /** Plans from the given facts without waiting. Throws like `plan`. */
  look (asked: PlanningInput, facts: Facts): Outcome {
    const { modelId, excluded, engine, ...ask } = asked
    const card = this.known(modelId)
    if (card === undefined) throw modelUnknown(modelId, [])
    checkAsked(card, asked)
    const { view, gang } = withGang(withProgram(this.view(facts, modelId), card, engine), card, engine)
    const keeper = card.tasks.includes('rerank') ? 'a reranking model'
      : view.engines[card.engine]?.slots === undefined ? card.engine : undefined
    if (ask.slots !== undefined && keeper !== undefined) {
      throw badField('slots', `cannot be chosen for ${modelId}: ${keeper} has no slots`)
    }
    const instanceMeta = ask.instanceMeta ?? view.engines[card.engine]?.meta ?? 'Ring'
    const request = { ...ask, card, instanceMeta, excluded: this.nodeIds(excluded) }
    const result = plan(request, view)
    if (result.ok) {
      const chosen = result.plan.ranks.length > 1 ? gang : engine
      return { plan: result.plan, card, facts, instanceMeta, engine: chosen }
    }
    if (result.reason === 'insufficient_memory') {
      const unloads = evictions(request, view, this.minimum)?.map(({ memory, ...one }) =>
        ({ ...one, bytes: bytesOf({ ...one, memory }) }))
      if (unloads !== undefined) result.details['unloads'] = unloads
    }
    throw unlinked(result, view) ?? readingsDisabled(result, view) ?? refusalError(result)
  }

  #passing (error: unknown): boolean {
    if (!(error instanceof SvcError)) return false
    return error.reason === 'info_pending' ||
      (error.reason === 'insufficient_memory' && this.ctx.deps.instances.settling())
  }
}

/** Nodes without the chosen program count as without its engine. Throws `invalid_request` for others. */
function withProgram (view: ClusterView, { modelId, engine }: ModelCard, chosen?: string): ClusterView {
  if (chosen === undefined) return view
  if (engine !== ENGINES.safetensors) throw badField('engine',
    `cannot be chosen for ${modelId}: ${engine} runs it`)
  const has = ({ programs = {} }: NodeFacts): boolean => programs[engine]?.includes(chosen) === true
  if (!view.nodes.some(has)) {
    const usable = [...new Set(view.nodes.flatMap(({ programs = {} }) => programs[engine] ?? []))].join(', ')
    throw badField('engine', `"${chosen}" cannot be used on any node; usable: ${usable || 'none'} ` +
      '(`svc engine ls` on a node says why)')
  }
  return { ...view, nodes: view.nodes.map((node) => has(node) ? node
    : { ...node, lacks: [...node.lacks ?? [], engine], backends: { ...node.backends, [engine]: [] } }) }
}

/**
 * Chooses the program, and its version, with which most nodes can run the model together; the other nodes get
 * the reason why they cannot take part.
 */
function withGang (
  view: ClusterView, { family, engine }: ModelCard, chosen?: string
): { view: ClusterView, gang: string | undefined } {
  if (engine !== ENGINES.safetensors) return { view, gang: undefined }
  const splits = (models: readonly string[]): boolean => models.length === 0 || models.includes(family)
  const offers = view.nodes.flatMap(({ gangs }) => Object.entries(gangs?.[engine] ?? {}))
    .filter(([name, { problem, models }]) =>
      problem === null && (chosen ?? name) === name && splits([models].flat()))
    .map(([name, { version }]) => ({ name, version }))
  const nodesWith = ({ name, version }: typeof offers[number]): number =>
    offers.filter((one) => one.name === name && one.version === version).length
  const [best] = [...offers].sort((a, b) => nodesWith(b) - nodesWith(a))
  const apart = ({ gangs, programs }: NodeFacts): string | undefined => {
    const all = gangs?.[engine] ?? {}
    const name = best?.name ?? chosen ?? programs?.[engine]?.find((one) => Object.hasOwn(all, one))
    const own = all[name ?? '']
    if (own === undefined) return `${name ?? 'its program'} cannot share a model with other nodes`
    if (own.problem !== null) return `${name!}: ${own.problem}`
    if (best === undefined) return `${name!} cannot split models of the family ${family}`
    return own.version === best.version ? undefined
      : `it has ${name!} ${own.version}, others have ${best.version}`
  }
  const nodes = view.nodes.map((node) => ({ ...node, apart: apart(node) }))
  return { gang: best?.name, view: { ...view, nodes } }
}

/** Throws `invalid_request` for a context or a chat template that the model does not support. */
function checkAsked ({ modelId, contextLength, engine }: ModelCard, asked: PlanningInput): void {
  if ((asked.contextLength ?? 0) > contextLength) {
    throw badField('context_length', contextLength === 0 ? `is not supported: ${modelId} has no context`
      : `must be at most ${contextLength}, the context of ${modelId}`)
  }
  if (asked.chatTemplate === undefined || engine === ENGINES.gguf) return
  throw badField('chat_template', `requires a GGUF model, which ${modelId} is not`)
}

function storeAway (modelId: string, { nodeId, name }: NodeView): SvcError {
  const message = `No model is called ${modelId.slice(0, 200)} on the live nodes, and the store on ${name} ` +
    'does not respond at the moment.'
  return refuse('info_pending', message,
    { param: 'model_id', pendingNodes: [{ nodeId, name, missing: ['store'] }] })
}

/**
 * Replaces a refusal with `info_pending` if a node has reported no connections. Every node in a cluster of
 * several has one, so the report is missing, and the missing links may have caused the refusal.
 */
function unlinked ({ reason }: Refusal, { nodes, edges }: ClusterView): SvcError | undefined {
  const byLinks = reason === 'no_connected_cycle' || reason === 'insufficient_memory'
  if (!byLinks || nodes.length < 2) return undefined
  const told = new Set(edges.map(({ from }) => from))
  const untold = nodes.filter(({ nodeId, participation, silent }) =>
    participation === 'full' && silent !== true && !told.has(nodeId))
  if (untold.length === 0) return undefined
  const pendingNodes = untold.map(({ nodeId, name }) => ({ nodeId, name, missing: ['connections'] }))
  const names = untold.slice(0, 4).map(({ name }) => name).join(', ')
  return refuse('info_pending', `Waiting for ${names} to report the connections to other nodes.`,
    { pendingNodes })
}

/** The error that replaces `info_pending` if all pending nodes have disabled their readings. */
function readingsDisabled (
  { reason, pendingNodes = [], details: { modelId } }: Refusal, { nodes }: ClusterView
): SvcError | undefined {
  const pending = nodes.filter(({ nodeId }) => pendingNodes.includes(nodeId))
  if (reason !== 'info_pending' || pending.some(({ silent }) => silent !== true)) return undefined
  const names = pending.slice(0, 4).map(({ name }) => name).join(', ')
  return refuse('readings_disabled', `The memory of ${names} is unknown, because SVC_TELEMETRY_DISABLE=1 ` +
    `is set there, and no other node can run ${String(modelId)}.`)
}
