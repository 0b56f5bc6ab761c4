import type { Bundle, Cluster, ModelCard, NodeView, Section, StateReader } from '../../../kernel/index.js'
import type { ModelCopy, Models } from '../../staging/service.js'
import type { BackendChoice } from '../machine/backends.js'
import { brokenLink, chainOf } from './chain.js'
import type { BrokenLink, ChainFacts, ChainLink, CopyFacts } from './chain.js'
import type { InstanceFailure } from '../instances/failures.js'
import { reasonOf } from '../process/errors.js'
import { advanceOf } from '../process/states.js'
import type { Absence, RunnerStatus } from '../service.js'
import { bodyOf } from '../instances/shapes.js'
import type { Instance, RingInstance } from '../instances/shapes.js'

/** Where the facts about a model come from. */
export interface ChainFactsParts {
  self: { readonly nodeId: string }
  bundle: Bundle
  /** Absent where the plugin `staging` is off. */
  models: Pick<Models, 'cards' | 'allCopies'> | undefined
  cluster: Pick<Cluster, 'nodes'>
  /** Tells which backends other nodes offer; absent where nobody reads the state. */
  state: StateReader | undefined
  sections: {
    instances: Section<Instance>
    runners: Section<RunnerStatus>
    failures: Section<InstanceFailure>
  }
  backend (card: ModelCard): BackendChoice | null
  /** The newest status of a runner of this node. */
  local (runnerId: string): RunnerStatus | undefined
  absence (modelId: string): Absence | null
}

/** Everything about one model's chain. */
export interface ModelChain { links: ChainLink[], broken: BrokenLink | null }

/** Reads what is there once; the chain of any model by that. */
export type ReadChains = () => Promise<(modelId: string, capability: string | null) => ModelChain>

/** Gathers what the whole cluster tells of a model and walks its chain. */
export function createReadChains (parts: ChainFactsParts): ReadChains {
  return async () => {
    const { nodeResources = {} } = (await parts.state?.read() ?? {}) as { nodeResources?: Resources }
    const nodes = new Map(parts.cluster.nodes().map((node) => [node.nodeId, node]))
    const cluster = { nodes, resources: nodeResources, ...readOnce(parts) }
    return (modelId, capability) => {
      const facts = factsOf(parts, { modelId, capability, ...cluster })
      return { links: chainOf(facts), broken: brokenLink(facts) }
    }
  }
}

type Resources = Readonly<Record<string, { backends?: readonly string[] }>>

/** What the chains of all models are made of, so that nothing is read again for each of them. */
interface Whole {
  nodes: ReadonlyMap<string, NodeView>
  resources: Resources
  /** Cards of models whose files are not here. */
  cards: ReadonlyMap<string, ModelCard>
  copies: ReadonlyMap<string, readonly ModelCopy[]> | undefined
  /** By model. */
  instances: ReadonlyMap<string, readonly RingInstance[]>
  /** By runner. */
  statuses: ReadonlyMap<string, RunnerStatus>
  /** By instance. */
  failures: ReadonlyMap<string, InstanceFailure>
}

interface Question extends Whole {
  modelId: string
  capability: string | null
}

function readOnce ({ models, sections }: ChainFactsParts): Omit<Whole, 'nodes' | 'resources'> {
  const instances = new Map<string, RingInstance[]>()
  for (const { value } of sections.instances.entries()) {
    const ring = bodyOf(value)
    const { modelId } = ring.shardAssignments
    const known = instances.get(modelId)
    if (known === undefined) instances.set(modelId, [ring])
    else known.push(ring)
  }
  const failures = new Map<string, InstanceFailure>()
  for (const { value } of sections.failures.entries()) {
    if (!failures.has(value.instanceId)) failures.set(value.instanceId, value)
  }
  return {
    instances, failures,
    statuses: new Map([...sections.runners.entries()].map(({ key, value }) => [key, value])),
    cards: new Map(models?.cards().map(({ card }) => [card.modelId, card])),
    copies: models?.allCopies()
  }
}

function factsOf (parts: ChainFactsParts, question: Question): ChainFacts {
  const { modelId, capability, nodes } = question
  const { card, cardProblem } = cardOf(parts, question)
  const seats = seatsOf(parts, question)
  const taking = seats.filter(({ draining }) => !draining)
  const [best] = (taking.length > 0 ? taking : seats).toSorted((a, b) => b.advance - a.advance)
  return {
    modelId,
    capability,
    card,
    cardProblem,
    known: card === null ? parts.bundle.models().map((one) => one.card.modelId) : [],
    copies: question.copies === undefined ? undefined : copiesOf(question.copies.get(modelId) ?? []),
    backend: card === null ? null : parts.backend(card),
    elsewhere: seats.some(({ nodeIds }) => nodeIds.some((id) => isElsewhere(parts, nodes.get(id)))) ||
      (card !== null && offeredElsewhere(parts, question, card)),
    placed: best !== undefined,
    nodes: best?.nodeIds.map((id) => nodes.get(id)?.name ?? id) ?? [],
    draining: seats.length > 0 && taking.length === 0,
    absence: parts.absence(modelId),
    runner: best?.runner ?? null,
    failure: best?.failure
  }
}

function cardOf (
  { bundle }: ChainFactsParts, { modelId, cards }: Question
): { card: ModelCard | null, cardProblem?: string } {
  try {
    return { card: bundle.model(modelId)?.card ?? cards.get(modelId) ?? null }
  } catch (error) {
    return { card: null, cardProblem: `its card cannot be read: ${reasonOf(error)}` }
  }
}

/** Where the files of a model are. */
export function copiesOf (all: readonly ModelCopy[]): CopyFacts {
  const whole = all.filter(({ kind }) => kind !== 'receiving')
  const names = (list: readonly ModelCopy[]): string[] => [...new Set(list.map(({ nodeName }) => nodeName))]
  return {
    live: names(whole.filter(({ live }) => live)),
    lost: names(whole.filter(({ live }) => !live)),
    receiving: names(all.filter(({ kind, live }) => kind === 'receiving' && live))
  }
}

const isElsewhere = ({ self }: Pick<ChainFactsParts, 'self'>, node: NodeView | undefined): boolean =>
  node?.live === true && node.nodeId !== self.nodeId

/** What an engine is can be told only by a node that has it. */
function offeredElsewhere (
  parts: ChainFactsParts, { nodes, resources }: Question, card: ModelCard
): boolean {
  const offers = parts.bundle.engine(card.engine)?.decl.backends ?? []
  return [...nodes.values()].some((node) => isElsewhere(parts, node) &&
    resources[node.nodeId]?.backends?.some((name) =>
      offers.includes(name) && card.backends.includes(name)) === true)
}

/** An instance of the model, and how far it is. */
interface Seat {
  nodeIds: string[]
  draining: boolean
  advance: number
  /** The one that is least far. */
  runner: RunnerStatus | null
  failure: { instanceId: string, message: string } | undefined
}

function seatsOf (
  { local }: ChainFactsParts, { modelId, instances, statuses, failures }: Question
): Seat[] {
  const rings = instances.get(modelId) ?? []
  return rings.map(({ instanceId, drainUntil, shardAssignments: { nodeToRunner } }) => {
    const all = Object.values(nodeToRunner).map((id) => local(id) ?? statuses.get(id) ?? null)
    const runner = all.toSorted((a, b) => advanceOf(a) - advanceOf(b))[0] ?? null
    const failed = failures.get(instanceId)
    return {
      nodeIds: Object.keys(nodeToRunner),
      draining: drainUntil !== undefined,
      advance: failed === undefined ? advanceOf(runner) : -1,
      runner,
      failure: failed === undefined ? undefined : { instanceId, message: failed.errorMessage }
    }
  })
}
