import { runsOn } from '../../../kernel/index.js'
import type { Bundle, Cluster, ModelCard, NodeView, Section, StateReader } from '../../../kernel/index.js'
import type { ModelCopy, Models } from '../../staging/service.js'
import { isDraining, placedCard } from '../instances/document.js'
import type { PlacedInstances } from '../instances/document.js'
import type { Fleet } from '../instances/fleet.js'
import { lends } from '../instances/shapes.js'
import type { InstanceFailure, RingInstance } from '../instances/sections.js'
import type { BackendChoice } from '../machine/backends.js'
import { beyond } from '../machine/programs.js'
import { reasonOf } from '../process/errors.js'
import { advanceOf, kindOf, serves } from '../process/states.js'
import type { Absence, RunnerStatus } from '../service.js'
import { chainOf } from './chain.js'
import type { BrokenLink, ChainFacts, CopyFacts, ReadChains } from './chain.js'
import type { TaskGossip } from './remote/gossip.js'
import type { TaskTable } from './tasks.js'

export interface AvailabilityParts {
  self: { readonly nodeId: string, readonly installId: string }
  bundle: Bundle
  /** Absent where the plugin `staging` is off. */
  models?: Pick<Models, 'card' | 'copies' | 'allCopies' | 'silentStore'> | undefined
  cluster: Pick<Cluster, 'nodes'>
  /** Tells which backends other nodes offer; absent where nobody reads the state. */
  state: StateReader | undefined
  placed: Pick<PlacedInstances, 'of'>
  sections: { runners: Section<RunnerStatus>, failures: Section<InstanceFailure> }
  fleet: Pick<Fleet, 'get' | 'status'>
  /** Tasks that this node serves, whoever asked. */
  tasks: Pick<TaskTable, 'outstanding'>
  /** Tasks that other nodes serve for this one. */
  away: Pick<TaskTable, 'outstanding'>
  /** What other nodes tell of their load. */
  gossip: Pick<TaskGossip, 'load'>
  backend (card: ModelCard): BackendChoice | null
  /** Why a model is not placed, where somebody knows. */
  absence (modelId: string): Absence | null
  /** This node cannot know yet what is placed. */
  learning (): boolean
}

/** Whether only this node counts, or all of them. */
export type Scope = 'here' | 'anywhere'

/** A runner that an instance names on a live node. */
export interface PlacedRunner {
  readonly nodeId: string
  readonly installId: string
  readonly instanceId: string
  readonly runnerId: string
  readonly modelId: string
  /** It runs on this node. */
  readonly own: boolean
  /** Null before its node has said anything; another node's is at most half a second old. */
  readonly status: RunnerStatus | null
  /** It takes new requests: it is ready, lends nothing, and neither its instance nor its node is leaving. */
  readonly serving: boolean
}

/** A runner that takes new requests, as the node that asks knows it. */
export interface Candidate extends
  Pick<PlacedRunner, 'nodeId' | 'installId' | 'instanceId' | 'runnerId' | 'own'> {
  /** Tasks it is known to have open. */
  readonly load: number
}

/** What there is of one model at one moment. */
export interface Look {
  /** Every instance of it, whatever its state. */
  readonly instances: readonly RingInstance[]
  /** Their runners, on this node or on all. */
  readonly runners: readonly PlacedRunner[]
}

/** What is asked model by model for a request, and read once for a report on all of them. */
interface Source {
  /** What to call a node in a report. */
  nodeName (nodeId: string): string
  /** Whether a node gives no sign of life. */
  lost (nodeId: string): boolean
  copies (modelId: string): readonly ModelCopy[] | undefined
  backend (card: ModelCard): BackendChoice | null
  failure (instanceId: string): InstanceFailure | undefined
  /** What other live nodes offer; only a report asks. */
  offers: readonly Offers[]
}

/** Of a model that runs: its runner has one. */
const OF_RUNNER: BackendChoice = { backend: 'what its runner has', declared: false }

/** Backends of a node and of its engines, and by engine the program that it drives: null for none. */
interface Offers {
  backends?: readonly string[]
  engineBackends?: Readonly<Record<string, readonly string[]>>
  engines?: Readonly<Record<string, { from?: string } | null>>
}

interface Question extends Look { modelId: string, capability: string | null }

/** Which models can be used, where, and what is missing. */
export class Availability {
  readonly #parts: AvailabilityParts

  constructor (parts: AvailabilityParts) { this.#parts = parts }

  /** The card of a model that is here, in the catalogue, or placed. Throws when it cannot be read. */
  card (modelId: string): ModelCard | undefined {
    const { bundle, models, placed } = this.#parts
    // The node with the store, which tells of its cards, may be away while others serve the model.
    return bundle.model(modelId)?.card ?? models?.card(modelId) ?? placedCard(placed.of(modelId))
  }

  /** The models this node can name: those that are here, and those that others serve. */
  cards (): Map<string, ModelCard> {
    const all = new Map(this.#parts.bundle.models().map(({ card }) => [card.modelId, card]))
    for (const { own, modelId } of this.#serving()) {
      const card = own ? undefined : all.get(modelId) ?? this.card(modelId)
      if (card !== undefined) all.set(modelId, card)
    }
    return all
  }

  /** The ones of them that have a ready runner somewhere. */
  ready (): Set<string> { return new Set(this.#serving().map(({ modelId }) => modelId)) }

  look (modelId: string, scope: Scope): Look {
    const instances = this.#parts.placed.of(modelId)
    const runners = this.#runners(instances)
    return { instances, runners: scope === 'here' ? runners.filter(({ own }) => own) : runners }
  }

  /** The runners that take new requests. */
  candidates ({ runners }: Look): Candidate[] {
    const { tasks, away, gossip } = this.#parts
    return runners.filter(({ serving }) => serving).map((runner) => {
      const { own, installId, runnerId } = runner
      const load = own
        ? tasks.outstanding(runnerId)
        : loadOf(runner, away.outstanding(runnerId), gossip.load(installId, runnerId))
      return { ...runner, load }
    })
  }

  /** The first broken link of the model's chain; null when a request for `capability` could be served. */
  broken (modelId: string, capability: string | null, look: Look): BrokenLink | null {
    const { models, sections, backend } = this.#parts
    const serving = look.runners.some((runner) => runner.serving)
    return chainOf(this.#facts({
      nodeName: (nodeId) => nodeId,
      lost: (nodeId) => isLost(this.#nodes(), nodeId),
      copies: (id) => models?.copies(id),
      // Asked with each request: what a runner runs on is not looked for on the disk again.
      backend: serving ? () => OF_RUNNER : backend,
      failure: (id) => [...sections.failures.entries()].find(({ value }) => value.instanceId === id)?.value,
      offers: []
    }, { modelId, capability, ...look })).broken
  }

  /** Every link of any model's chain; what all of them are made of is read once. */
  readonly chains: ReadChains = async () => {
    const { models, placed } = this.#parts
    const nodes = this.#nodes()
    const copies = models?.allCopies()
    const failures = this.#failures()
    const source: Source = {
      nodeName: (nodeId) => nodes.get(nodeId)?.name ?? nodeId,
      lost: (nodeId) => isLost(nodes, nodeId),
      backend: this.#parts.backend,
      copies: (id) => copies === undefined ? undefined : copies.get(id) ?? [],
      failure: (id) => failures.get(id),
      offers: await this.#offersElsewhere(nodes)
    }
    return (modelId, capability) => {
      const instances = placed.of(modelId)
      const runners = this.#runners(instances, () => nodes)
      return chainOf(this.#facts(source, { modelId, capability, instances, runners }))
    }
  }

  /** The failures by instance id; of several of one instance the first. */
  #failures (): ReadonlyMap<string, InstanceFailure> {
    const all = [...this.#parts.sections.failures.entries()]
    return new Map(all.reverse().map(({ value }) => [value.instanceId, value]))
  }

  async #offersElsewhere (nodes: ReadonlyMap<string, NodeView>): Promise<readonly Offers[]> {
    const { self, state } = this.#parts
    const { nodeResources = {} } = (await state?.read() ?? {}) as
      { nodeResources?: Readonly<Record<string, Offers>> }
    const others = [...nodes.values()].filter(({ nodeId, live }) => live && nodeId !== self.nodeId)
    return others.flatMap(({ nodeId }) => nodeResources[nodeId] ?? [])
  }

  #nodes (): ReadonlyMap<string, NodeView> {
    return new Map(this.#parts.cluster.nodes().map((node) => [node.nodeId, node]))
  }

  #serving (): PlacedRunner[] {
    return this.#runners(this.#parts.placed.of()).filter(({ serving }) => serving)
  }

  /**
   * The runners of these instances on live nodes. Nodes that are gone or have started anew are left out; the
   * list of nodes is only asked for where an instance names another one.
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
        const said = own ? undefined : sections.runners.get(runnerId, nodeId)
        // What is on a leaving node is as good as gone for a new request.
        const status = node.leaving === true ? null
          : member === undefined ? said ?? null : fleet.status(member)
        const serving = status !== null && serves(kindOf(status)) && !isDraining(ring) && !lends(ring, nodeId)
        const { installId } = node
        return [{ nodeId, installId, instanceId, runnerId, modelId, own, status, serving }]
      })
    })
  }

  /** Gathers what is known of one model. */
  #facts (source: Source, question: Question): ChainFacts {
    const { absence, learning } = this.#parts
    const { modelId, capability, instances } = question
    const { card, cardProblem } = this.#readCard(modelId)
    const best = furthest(source, question)
    const running = best?.runner != null && serves(kindOf(best.runner))
    // A request that can be served asks nothing about files.
    const copies = running ? undefined : source.copies(modelId)
    const draining = instances.every(isDraining)
    return {
      modelId,
      capability,
      card,
      cardProblem,
      known: card === null && cardProblem === undefined ? [...this.cards().keys()] : [],
      copies: copies === undefined ? undefined : copiesOf(copies),
      silentStore: running ? undefined : this.#parts.models?.silentStore()?.name,
      backend: card === null ? null : source.backend(card),
      elsewhere: this.#elsewhere(source, question, card),
      placed: instances.length > 0,
      nodes: best?.nodeIds.map((id) => source.nodeName(id)) ?? [],
      lost: running
        ? []
        : best?.nodeIds.filter((id) => source.lost(id)).map((id) => source.nodeName(id)),
      draining: instances.length > 0 && draining,
      absence: draining ? absence(modelId) : null,
      learning: learning(),
      runner: best?.runner ?? null,
      failure: best?.failure
    }
  }

  #readCard (modelId: string): { card: ModelCard | null, cardProblem?: string } {
    try {
      return { card: this.card(modelId) ?? null }
    } catch (error) {
      return { card: null, cardProblem: `its card cannot be read: ${reasonOf(error)}` }
    }
  }

  /** Whether another live node runs the model or could. Only a node that has the engine can tell. */
  #elsewhere ({ offers }: Source, { runners }: Question, card: ModelCard | null): boolean {
    if (runners.some(({ own }) => !own)) return true
    if (card === null) return false
    const { engine } = card
    const { backends: known = [], program } = this.#parts.bundle.engine(engine)?.decl ?? {}
    const isBeyond = program?.otherwise !== undefined && beyond(program.otherwise, card) !== null
    return offers.some(({ backends = [], engineBackends, engines }) => engines?.[engine] !== null &&
      !(isBeyond && engines?.[engine]?.from === 'library') &&
      known.some((name) => runsOn(card, name) &&
        (engineBackends?.[engine] ?? backends).includes(name)))
  }
}

/** A node that this one has never heard of in this session may still come. */
const isLost = (nodes: ReadonlyMap<string, NodeView>, nodeId: string): boolean =>
  nodes.get(nodeId)?.live === false

/** How far an instance is. */
interface Progress {
  nodeIds: string[]
  /** One that serves, else the one that is least far: it keeps the others waiting. */
  runner: RunnerStatus | null
  failure: ChainFacts['failure']
}

/** The instance that is furthest, of those that take new requests if there are any. */
function furthest (source: Source, { instances, runners }: Question): Progress | undefined {
  const taking = instances.filter((ring) => !isDraining(ring))
  const rank = ({ runner, failure }: Progress): number => failure === undefined ? advanceOf(runner) : -1
  return (taking.length > 0 ? taking : instances)
    .map((ring) => progressOf(source, ring, runners))
    .toSorted((a, b) => rank(b) - rank(a))[0]
}

function progressOf (
  source: Source, { instanceId, shardAssignments: { nodeToRunner } }: RingInstance,
  runners: readonly PlacedRunner[]
): Progress {
  const own = runners.filter((runner) => runner.instanceId === instanceId)
  const nodeIds = Object.keys(nodeToRunner)
  const serving = own.find((runner) => runner.serving)
  if (serving !== undefined) return { nodeIds, runner: serving.status, failure: undefined }
  const statuses = nodeIds.map((id) => own.find(({ nodeId }) => nodeId === id)?.status ?? null)
  const failed = source.failure(instanceId)
  const { errorMessage: message, errorCode: code } = failed ?? {}
  return {
    nodeIds,
    runner: statuses.toSorted((a, b) => advanceOf(a) - advanceOf(b))[0] ?? null,
    failure: message === undefined ? undefined : { instanceId, message, code }
  }
}

/** Where the files of a model are. */
function copiesOf (all: readonly ModelCopy[]): CopyFacts {
  const whole = all.filter(({ kind }) => kind !== 'receiving')
  const names = (list: readonly ModelCopy[]): string[] => [...new Set(list.map(({ nodeName }) => nodeName))]
  return {
    live: names(whole.filter(({ live }) => live)),
    lost: names(whole.filter(({ live }) => !live)),
    receiving: names(all.filter(({ kind, live }) => kind === 'receiving' && live))
  }
}

/**
 * What this node has open there, and what the other node said last of the work of others; before it has said
 * anything, at least one task where its runner is said to be working.
 */
function loadOf ({ status }: PlacedRunner, open: number, others: number | null): number {
  if (others !== null) return open + others
  return status !== null && 'RunnerRunning' in status ? Math.max(open, 1) : open
}

/**
 * The runner with the least outstanding work. Between equals this node's own comes first, then the lower
 * instance id: every node decides alike. Undefined when there is none. Pure.
 */
export function choose (candidates: readonly Candidate[]): Candidate | undefined {
  return candidates.toSorted(compare)[0]
}

/** The order in which runners are taken. */
export function compare (a: Candidate, b: Candidate): number {
  return a.load - b.load || Number(b.own) - Number(a.own) || byText(a.instanceId, b.instanceId) ||
    byText(a.runnerId, b.runnerId)
}

/** By code units: the order must not depend on a node's language. */
const byText = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
