import type { Bundle, ModelCard, Section } from '../../../kernel/index.js'
import type { Models } from '../../staging/service.js'
import type { BackendChoice } from '../machine/backends.js'
import { brokenLink } from './chain.js'
import type { BrokenLink, CopyFacts } from './chain.js'
import { copiesOf } from './chain-facts.js'
import type { Fleet, Member } from '../instances/fleet.js'
import { reasonOf } from '../process/errors.js'
import { advanceOf, kindOf, serves } from '../process/states.js'
import type { Candidate } from './remote/choose.js'
import { runnersElsewhere } from './remote/elsewhere.js'
import type { ElsewhereParts, RunnerElsewhere } from './remote/elsewhere.js'
import type { Bulletin } from './remote/news.js'
import { isDraining, placedCard, PlacedInstances } from '../instances/document.js'
import type { Absence, RunnerStatus } from '../service.js'
import type { Instance, RingInstance } from '../instances/shapes.js'
import type { TaskTable } from './tasks.js'

export interface AvailabilityParts {
  self: { readonly nodeId: string, readonly installId: string }
  bundle: Bundle
  /** Cards of models that are not here. */
  models?: Pick<Models, 'card' | 'copies'> | undefined
  cluster: ElsewhereParts['cluster']
  sections: { instances: Section<Instance>, runners: Section<RunnerStatus> }
  fleet: Fleet
  /** Tasks that this node serves, whoever asked. */
  tasks: TaskTable
  /** Tasks that other nodes serve for this one. */
  away: TaskTable
  /** What other nodes tell of their load. */
  news: Pick<Bulletin, 'load'>
  backend (card: ModelCard): BackendChoice | null
  /** Why a model is not placed, where somebody knows. */
  absence (modelId: string): Absence | null
  /** This node cannot know yet what is placed. */
  learning (): boolean
}

/** Whether only this node counts, or all of them. */
export type Scope = 'here' | 'anywhere'

/** A ready runner of this node. */
export type OwnCandidate = Candidate & { readonly member: Member }

/** What there is of one model at one moment. */
export interface Look {
  /** Every instance of it, whatever its state. */
  readonly instances: readonly RingInstance[]
  /** Its runners on this node, apart from those of instances that take no new requests. */
  readonly here: readonly Member[]
  /** Its runners on other nodes that are there. */
  readonly there: readonly RunnerElsewhere[]
}

/** Which models can be used, where, and what is missing. */
export interface Availability {
  /** The card of a model that is here, in the catalogue, or placed. Throws when it cannot be read. */
  card (modelId: string): ModelCard | undefined
  look (modelId: string, scope: Scope): Look
  /** The first broken link of the model's chain; null when a request for `capability` could be served. */
  broken (modelId: string, capability: string | null, look: Look): BrokenLink | null
  /** Ready runners on this node that take new requests. */
  own (look: Look): OwnCandidate[]
  /** Ready runners on other nodes that take new requests. */
  others (look: Look): Candidate[]
  /** The models this node can name: those that are here, and those that others serve. */
  cards (): Map<string, ModelCard>
  /** The ones of them that have a ready runner somewhere. */
  ready (): Set<string>
}

export function createAvailability (parts: AvailabilityParts): Availability {
  const { fleet, tasks, away, news, self, bundle, cluster, sections } = parts
  const placed = new PlacedInstances(sections.instances)
  const elsewhere = (instances: readonly RingInstance[]): RunnerElsewhere[] =>
    runnersElsewhere({ self, cluster, runners: sections.runners }, instances)
  const takesNew = ({ assignment: { modelId, instanceId } }: Member): boolean =>
    !placed.of(modelId).some((ring) => ring.instanceId === instanceId && isDraining(ring))
  const readyElsewhere = (): RunnerElsewhere[] => elsewhere(placed.of()).filter(accepts)
  // The node with the store, which tells of its cards, may be away while others serve the model.
  const cardOf = (modelId: string): ModelCard | undefined =>
    bundle.model(modelId)?.card ?? parts.models?.card(modelId) ?? placedCard(placed.of(modelId))
  const cards = (): Map<string, ModelCard> => {
    const all = new Map(bundle.models().map(({ card }) => [card.modelId, card]))
    for (const { modelId } of readyElsewhere()) {
      const card = all.get(modelId) ?? cardOf(modelId)
      if (card !== undefined) all.set(modelId, card)
    }
    return all
  }
  return {
    card: cardOf,
    cards,
    look (modelId, scope) {
      const instances = placed.of(modelId)
      return {
        instances,
        here: fleet.members().filter((member) =>
          member.assignment.modelId === modelId && !member.lends && takesNew(member)),
        there: scope === 'anywhere' ? elsewhere(instances) : []
      }
    },
    own: ({ here }) => here.filter((member) => fleet.ready(member)).map((member) => {
      const { instanceId, runnerId } = member.assignment
      const { nodeId, installId } = self
      return { nodeId, installId, instanceId, runnerId, own: true, load: tasks.outstanding(runnerId), member }
    }),
    others: ({ there }) => there.filter(accepts).map((runner) => {
      const { installId, runnerId } = runner
      const load = loadOf(runner, away.outstanding(runnerId), news.load(installId, runnerId))
      return { ...runner, own: false, load }
    }),
    ready: () => new Set([
      ...fleet.members().filter((member) => fleet.ready(member) && takesNew(member))
        .map(({ assignment }) => assignment.modelId),
      ...readyElsewhere().map(({ modelId }) => modelId)
    ]),
    broken: (modelId, capability, { instances, here, there }) => {
      const runner = mostAdvanced([
        ...here.map((member) => fleet.status(member)),
        ...there.flatMap(({ status, draining }) => status === null || draining ? [] : [status])
      ])
      return brokenLink({
        modelId,
        capability,
        ...cardFacts(parts, modelId, cardOf, cards),
        copies: copyFacts(parts, modelId, runner),
        elsewhere: there.length > 0,
        placed: instances.length > 0,
        draining: instances.length > 0 && instances.every(isDraining),
        absence: instances.every(isDraining) ? parts.absence(modelId) : null,
        learning: parts.learning(),
        runner
      })
    }
  }
}

/** Where the files are, unless it runs: a request that can be served asks nothing about them. */
function copyFacts (
  { models }: AvailabilityParts, modelId: string, runner: RunnerStatus | null
): CopyFacts | undefined {
  const running = runner !== null && serves(kindOf(runner))
  return running || models === undefined ? undefined : copiesOf(models.copies(modelId))
}

const accepts = ({ status, draining }: RunnerElsewhere): boolean =>
  !draining && status !== null && serves(kindOf(status))

/**
 * What this node has open there, and what the other node said last of the work of others; before it has said
 * anything, at least one task where its runner is said to be working.
 */
function loadOf ({ status }: RunnerElsewhere, open: number, others: number | null): number {
  if (others !== null) return open + others
  return status !== null && 'RunnerRunning' in status ? Math.max(open, 1) : open
}

interface CardFacts {
  card: ModelCard | null
  cardProblem?: string
  known: string[]
  backend: BackendChoice | null
}

function cardFacts (
  { backend }: AvailabilityParts, modelId: string, cardOf: Availability['card'],
  cards: () => Map<string, ModelCard>
): CardFacts {
  try {
    const card = cardOf(modelId)
    if (card !== undefined) return { card, known: [], backend: backend(card) }
    return { card: null, known: [...cards().keys()], backend: null }
  } catch (error) {
    const cardProblem = `its card cannot be read: ${reasonOf(error)}`
    return { card: null, cardProblem, known: [], backend: null }
  }
}

function mostAdvanced (statuses: RunnerStatus[]): RunnerStatus | null {
  return statuses.toSorted((a, b) => advanceOf(b) - advanceOf(a))[0] ?? null
}
