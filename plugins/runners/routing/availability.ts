import type { Cluster, ModelCard, NodeView, OffPlugin, Section, StateReader } from '../../../kernel/index.js'
import { runsOn } from '../cards/backends.js'
import type { Bundle } from '../cards/bundle.js'
import type { ModelCopy, Models } from '../../staging/service.js'
import { isDraining, placedCard } from '../instances/document.js'
import type { PlacedInstances } from '../instances/document.js'
import type { RunnerSet } from '../instances/runner-set.js'
import { isHelper } from '../instances/shapes.js'
import type { InstanceFailure, RingInstance } from '../instances/sections.js'
import type { BackendChoice } from '../machine/backends.js'
import { whyLibraryCannot } from '../machine/programs.js'
import { reasonOf } from '../process/errors.js'
import { statusRank, kindOf, serves } from '../process/states.js'
import type { MissingReason, Route, RunnerStatus } from '../service.js'
import { explain } from './explain.js'
import type { BrokenLink, ChainFacts, CopyFacts, ModelChain, ReadChains } from './explain.js'
import type { Candidate } from './pick.js'
import type { TaskGossip } from './remote/gossip.js'
import type { TaskTable } from './tasks.js'

export interface AvailabilityParts {
  self: { readonly nodeId: string, readonly installId: string }
  bundle: Bundle
  /** Access to model files; absent if the plugin `staging` is off. */
  models?: Pick<Models, 'card' | 'copies' | 'allCopies' | 'silentStore'> | undefined
  cluster: Pick<Cluster, 'nodes'>
  state: StateReader | undefined
  placed: Pick<PlacedInstances, 'of'>
  sections: { runners: Section<RunnerStatus>, failures: Section<InstanceFailure> }
  fleet: Pick<RunnerSet, 'get' | 'status'>
  /** Tasks that this node serves for any node. */
  tasks: Pick<TaskTable, 'outstanding'>
  /** Tasks that other nodes serve for this one. */
  remoteTasks: Pick<TaskTable, 'outstanding'>
  gossip: Pick<TaskGossip, 'load'>
  backend (card: ModelCard): BackendChoice | null
  /** The disabled plugin that provides a model or an engine. */
  off (kind: 'models' | 'engines', name: string): OffPlugin | undefined
  /** Why a model is not placed; null if no plugin can explain it. */
  absence (modelId: string): MissingReason | null
  learning (): boolean
}

/** A runner of an instance on a live node. */
export interface PlacedRunner extends
  Readonly<Pick<Route, 'nodeId' | 'installId' | 'instanceId' | 'runnerId' | 'modelId'>> {
  readonly own: boolean
  /** Null until the runner's node reports one; another node's status is at most half a second old. */
  readonly status: RunnerStatus | null
  /** True if the runner is ready and no helper, and neither its instance nor its node is shutting down. */
  readonly serving: boolean
}

export interface ModelSnapshot {
  readonly instances: readonly RingInstance[]
  readonly runners: readonly PlacedRunner[]
}

/** Facts about the cluster, read once to explain the availability of any number of models. */
interface Source {
  nodes: ReadonlyMap<string, NodeView>
  copies (modelId: string): readonly ModelCopy[] | undefined
  failures: ReadonlyMap<string, InstanceFailure>
  /** Backends and engines of the other live nodes. */
  offers: readonly Offers[]
}

/** Used for a model that is already running, because its runner has chosen a backend. */
const OF_RUNNER: BackendChoice = { backend: 'the backend of its runner', declared: false }

/** Backends of a node and of its engines, and each engine's program, which is null if it is missing. */
interface Offers {
  backends?: readonly string[]
  engineBackends?: Readonly<Record<string, readonly string[]>>
  engines?: Readonly<Record<string, { from?: string } | null>>
}

export class Availability {
  readonly #parts: AvailabilityParts

  constructor (parts: AvailabilityParts) { this.#parts = parts }

  /** The card of a local, catalogued or placed model. Throws if it cannot be read. */
  card (modelId: string): ModelCard | undefined {
    const { bundle, models, placed } = this.#parts
    // The store node, which has the cards, may be offline while other nodes serve the model.
    return bundle.model(modelId)?.card ?? models?.card(modelId) ?? placedCard(placed.of(modelId))
  }

  /** The models that this node has a card for: its own, and those that other nodes serve. */
  cards (): Map<string, ModelCard> {
    const all = new Map(this.#parts.bundle.models().map(({ card }) => [card.modelId, card]))
    for (const { own, modelId } of this.#serving()) {
      const card = own ? undefined : all.get(modelId) ?? this.card(modelId)
      if (card !== undefined) all.set(modelId, card)
    }
    return all
  }

  ready (): Set<string> { return new Set(this.#serving().map(({ modelId }) => modelId)) }

  snapshot (modelId: string): ModelSnapshot {
    const instances = this.#parts.placed.of(modelId)
    return { instances, runners: this.#runners(instances) }
  }

  candidates ({ instances, runners }: ModelSnapshot): Candidate[] {
    const { tasks, remoteTasks, gossip } = this.#parts
    return runners.filter(({ serving }) => serving).map((runner) => {
      const { own, installId, runnerId, instanceId } = runner
      const load = own
        ? tasks.outstanding(runnerId)
        : loadOf(runner, remoteTasks.outstanding(runnerId), gossip.load(installId, runnerId))
      return { ...runner, load, contextTokens: contextOf(instances, instanceId) ?? 0 }
    })
  }

  /** True if the model supports the task; without a task (null), true if its card can be read. */
  does (modelId: string, capability: string | null): boolean {
    const { card } = this.#readCard(modelId)
    return card !== null && (capability === null || card.tasks.includes(capability))
  }

  /** The first broken link of a model's availability chain; null if it can serve `capability`. */
  broken (modelId: string, capability: string | null, snapshot = this.snapshot(modelId)): BrokenLink | null {
    if (snapshot.runners.some(({ serving }) => serving) && this.does(modelId, capability)) return null
    const copies = (id: string): readonly ModelCopy[] | undefined => this.#parts.models?.copies(id)
    return this.#explainer({ nodes: this.#nodes(), copies, offers: [] })(modelId, capability, snapshot).broken
  }

  /** Returns a function that builds the availability chain of any model from facts that are read once. */
  readonly chains: ReadChains = async () => {
    const { self, state, models } = this.#parts
    const nodes = this.#nodes()
    const all = models?.allCopies()
    const { nodeResources = {} } = (await state?.read() ?? {}) as
      { nodeResources?: Readonly<Record<string, Offers>> }
    const others = [...nodes.values()].filter(({ nodeId, live }) => live && nodeId !== self.nodeId)
    const offers = others.flatMap(({ nodeId }) => nodeResources[nodeId] ?? [])
    return this.#explainer({ nodes, copies: (id) => all && (all.get(id) ?? []), offers })
  }

  #explainer (
    read: Omit<Source, 'failures'>
  ): (modelId: string, capability: string | null, snapshot?: ModelSnapshot) => ModelChain {
    const { placed, sections } = this.#parts
    // If one instance has several failures, the first entry is used.
    const failures = new Map([...sections.failures.entries()].reverse()
      .map(({ value }) => [value.instanceId, value]))
    return (modelId, capability, snapshot) => {
      const instances = placed.of(modelId)
      snapshot ??= { instances, runners: this.#runners(instances, () => read.nodes) }
      return explain(this.#facts({ ...read, failures }, snapshot, { modelId, capability }))
    }
  }

  #nodes (): ReadonlyMap<string, NodeView> {
    return new Map(this.#parts.cluster.nodes().map((node) => [node.nodeId, node]))
  }

  #serving (): PlacedRunner[] {
    return this.#runners(this.#parts.placed.of()).filter(({ serving }) => serving)
  }

  /**
   * The runners of these instances on live nodes, except nodes that have restarted. The node list is read
   * only if an instance names another node.
   */
  #runners (instances: readonly RingInstance[], nodes = () => this.#nodes()): PlacedRunner[] {
    const { self, sections, fleet } = this.#parts
    let known: ReadonlyMap<string, NodeView> | undefined
    return instances.flatMap((ring) => {
      const { instanceId, shardAssignments: { modelId, nodeToRunner } } = ring
      return Object.entries(nodeToRunner).flatMap(([nodeId, runnerId]): PlacedRunner[] => {
        const own = nodeId === self.nodeId
        const node = own ? { ...self, live: true, leaving: false } : (known ??= nodes()).get(nodeId)
        if (node?.live !== true) return []
        const member = own ? fleet.get(runnerId) : undefined
        const reported = own ? undefined : sections.runners.get(runnerId, nodeId)
        // For a new request, a runner on a node that is shutting down counts as gone.
        const status = node.leaving === true ? null
          : member === undefined ? reported ?? null : fleet.status(member)
        const serving =
          status !== null && serves(kindOf(status)) && !isDraining(ring) && !isHelper(ring, nodeId)
        const { installId } = node
        return [{ nodeId, installId, instanceId, runnerId, modelId, own, status, serving }]
      })
    })
  }

  #facts (
    source: Source, snapshot: ModelSnapshot, asked: Pick<ChainFacts, 'modelId' | 'capability'>
  ): ChainFacts {
    const { absence, learning, backend, models, off } = this.#parts
    const { modelId, capability } = asked
    const { nodes } = source
    const { instances } = snapshot
    const { card, cardProblem } = this.#readCard(modelId)
    const best = furthest(source, snapshot)
    const running = best?.runner != null && serves(kindOf(best.runner))
    const nodeName = (nodeId: string): string => nodes.get(nodeId)?.name ?? nodeId
    // A node not seen in this session may still join, so it does not count as lost.
    const lost = running ? [] : best?.nodeIds.filter((id) => nodes.get(id)?.live === false)
    // A running model needs no files, so skip them.
    const copies = running ? undefined : source.copies(modelId)
    const draining = instances.every(isDraining)
    const choice = card === null ? null : backend(card)
    return {
      ...asked, card, cardProblem,
      known: (card === null && cardProblem === undefined ? [...this.cards().values()] : [])
        .filter(({ tasks }) => capability === null || tasks.includes(capability)).map((one) => one.modelId),
      copies: copies === undefined ? undefined : copiesOf(copies),
      silentStore: running ? undefined : models?.silentStore()?.name,
      off: card === null ? off('models', modelId) : off('engines', card.engine),
      backend: running && choice?.backend == null ? OF_RUNNER : choice,
      elsewhere: this.#elsewhere(source, snapshot, card), placed: instances.length > 0,
      nodes: best?.nodeIds.map(nodeName) ?? [], lost: lost?.map(nodeName),
      draining: instances.length > 0 && draining, absence: draining ? absence(modelId) : null,
      learning: learning(), runner: best?.runner ?? null, failure: best?.failure
    }
  }

  #readCard (modelId: string): { card: ModelCard | null, cardProblem?: string } {
    try {
      return { card: this.card(modelId) ?? null }
    } catch (error) {
      return { card: null, cardProblem: `its card cannot be read: ${reasonOf(error)}` }
    }
  }

  /** True if another live node runs the model or could run it with an engine that this node has too. */
  #elsewhere ({ offers }: Source, { runners }: ModelSnapshot, card: ModelCard | null): boolean {
    if (runners.some(({ own }) => !own)) return true
    if (card === null) return false
    const { engine } = card
    const { backends: known = [], program } = this.#parts.bundle.engine(engine)?.decl ?? {}
    const isBeyond = program?.otherwise !== undefined && whyLibraryCannot(program.otherwise, card) !== null
    return offers.some(({ backends = [], engineBackends, engines }) => engines?.[engine] !== null &&
      !(isBeyond && engines?.[engine]?.from === 'library') &&
      known.some((name) => runsOn(card, name) && (engineBackends?.[engine] ?? backends).includes(name)))
  }
}

interface Progress {
  nodeIds: string[]
  /** Status of a runner that serves, otherwise of the least advanced one, for which the others wait. */
  runner: RunnerStatus | null
  failure: ChainFacts['failure']
}

/** The instance closest to ready; one that accepts new requests is preferred. */
function furthest ({ failures }: Source, { instances, runners }: ModelSnapshot): Progress | undefined {
  const taking = instances.filter((ring) => !isDraining(ring))
  const rank = ({ runner, failure }: Progress): number => failure === undefined ? statusRank(runner) : -1
  return (taking.length > 0 ? taking : instances)
    .map((ring) => progressOf(ring, failures.get(ring.instanceId), runners))
    .toSorted((a, b) => rank(b) - rank(a))[0]
}

function progressOf (
  { instanceId, shardAssignments: { nodeToRunner } }: RingInstance, failed: InstanceFailure | undefined,
  runners: readonly PlacedRunner[]
): Progress {
  const own = runners.filter((runner) => runner.instanceId === instanceId)
  const nodeIds = Object.keys(nodeToRunner)
  const serving = own.find((runner) => runner.serving)
  if (serving !== undefined) return { nodeIds, runner: serving.status, failure: undefined }
  const statuses = nodeIds.map((id) => own.find(({ nodeId }) => nodeId === id)?.status ?? null)
  return {
    nodeIds, runner: statuses.toSorted((a, b) => statusRank(a) - statusRank(b))[0] ?? null,
    failure: failed && { instanceId, message: failed.errorMessage, code: failed.errorCode }
  }
}

/** Context length of an instance, in tokens; undefined if the instance has ended. */
export const contextOf = (instances: readonly RingInstance[], instanceId: string): number | undefined =>
  instances.find((ring) => ring.instanceId === instanceId)?.contextTokenLimit

function copiesOf (all: readonly ModelCopy[]): CopyFacts {
  const complete = all.filter(({ kind }) => kind !== 'receiving')
  const names = (list: readonly ModelCopy[]): string[] => [...new Set(list.map(({ nodeName }) => nodeName))]
  return {
    live: names(complete.filter(({ live }) => live)), lost: names(complete.filter(({ live }) => !live)),
    receiving: names(all.filter(({ kind, live }) => kind === 'receiving' && live))
  }
}

/**
 * A runner's tasks that this node has open, plus those of other nodes as last reported. Before the first
 * report from its node, a working runner counts as having at least one task.
 */
function loadOf ({ status }: PlacedRunner, open: number, others: number | null): number {
  if (others !== null) return open + others
  return status !== null && 'RunnerRunning' in status ? Math.max(open, 1) : open
}
