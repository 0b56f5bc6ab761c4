import type { Bundle, ModelCard, Section } from '../../kernel/index.js'
import type { Models } from '../staging/service.js'
import type { BackendChoice } from './backends.js'
import { brokenLink } from './chain.js'
import type { BrokenLink } from './chain.js'
import type { Fleet, Member } from './fleet.js'
import { reasonOf } from './process/errors.js'
import { kindOf, serves } from './process/states.js'
import type { Candidate } from './remote/choose.js'
import { runnersElsewhere } from './remote/elsewhere.js'
import type { ElsewhereParts, RunnerElsewhere } from './remote/elsewhere.js'
import type { RunnerStatus } from './service.js'
import type { Instance } from './shapes.js'
import type { TaskTable } from './tasks.js'

export interface AvailabilityParts {
  self: { readonly nodeId: string, readonly installId: string }
  bundle: Bundle
  /** Cards of models that are not here. */
  models?: Pick<Models, 'card'> | undefined
  cluster: ElsewhereParts['cluster']
  sections: { instances: Section<Instance>, runners: Section<RunnerStatus> }
  fleet: Fleet
  /** Tasks that this node serves, whoever asked. */
  tasks: TaskTable
  /** Tasks that other nodes serve for this one: what it knows of their load. */
  away: TaskTable
  backend (card: ModelCard): BackendChoice | null
  placed (modelId: string): boolean
}

/** Whether only this node counts, or all of them. */
export type Scope = 'here' | 'anywhere'

/** A ready runner of this node. */
export type OwnCandidate = Candidate & { readonly member: Member }

/** Which models can be used, where, and what is missing. */
export interface Availability {
  /** The first broken link of the model's chain; null when a request for `capability` could be served. */
  missing (modelId: string, capability: string | null, scope: Scope): BrokenLink | null
  /** Ready runners of the model on this node. */
  own (modelId: string): OwnCandidate[]
  /** Ready runners of the model on other nodes. */
  others (modelId: string): Candidate[]
  /** The models this node can name: those that are here, and those that others serve. */
  cards (): Map<string, ModelCard>
  /** The ones of them that have a ready runner somewhere. */
  ready (): Set<string>
}

export function createAvailability (parts: AvailabilityParts): Availability {
  const { fleet, tasks, away, self, bundle } = parts
  const elsewhere = (modelId?: string): RunnerElsewhere[] =>
    runnersElsewhere({ ...parts.sections, cluster: parts.cluster }, modelId)
  const readyElsewhere = (modelId?: string): RunnerElsewhere[] => elsewhere(modelId).filter(accepts)
  const readyHere = (): Member[] => fleet.members().filter((member) => fleet.ready(member))
  const cards = (): Map<string, ModelCard> => {
    const all = new Map(bundle.models().map(({ card }) => [card.modelId, card]))
    for (const { modelId } of readyElsewhere()) {
      const card = all.get(modelId) ?? parts.models?.card(modelId)
      if (card !== undefined) all.set(modelId, card)
    }
    return all
  }
  return {
    cards,
    own: (modelId) => readyHere().filter(({ assignment }) => assignment.modelId === modelId)
      .map((member) => {
        const { instanceId, runnerId } = member.assignment
        const { nodeId, installId } = self
        const load = tasks.outstanding(runnerId)
        return { nodeId, installId, instanceId, runnerId, own: true, load, member }
      }),
    others: (modelId) => readyElsewhere(modelId).map((runner) =>
      ({ ...runner, own: false, load: loadOf(runner, away.outstanding(runner.runnerId)) })),
    ready: () => new Set([
      ...readyHere().map(({ assignment }) => assignment.modelId),
      ...readyElsewhere().map(({ modelId }) => modelId)
    ]),
    missing (modelId, capability, scope) {
      const there = scope === 'anywhere' ? elsewhere(modelId) : []
      return brokenLink({
        modelId,
        capability,
        ...cardFacts(parts, modelId, cards),
        elsewhere: there.length > 0,
        placed: parts.placed(modelId),
        runner: mostAdvanced([
          ...statusesHere(fleet, modelId), ...there.flatMap(({ status }) => status ?? [])
        ])
      })
    }
  }
}

const accepts = ({ status }: RunnerElsewhere): boolean => status !== null && serves(kindOf(status))

/** What this node has open there, and at least one task where the runner says that it is working. */
const loadOf = ({ status }: RunnerElsewhere, open: number): number =>
  status !== null && 'RunnerRunning' in status ? Math.max(open, 1) : open

const statusesHere = (fleet: Fleet, modelId: string): RunnerStatus[] => fleet.members()
  .filter(({ assignment }) => assignment.modelId === modelId)
  .map((member) => fleet.status(member))

interface CardFacts {
  card: ModelCard | null
  cardProblem?: string
  known: string[]
  backend: BackendChoice | null
}

function cardFacts (
  { bundle, models, backend }: AvailabilityParts, modelId: string, cards: () => Map<string, ModelCard>
): CardFacts {
  try {
    const card = bundle.model(modelId)?.card ?? models?.card(modelId)
    if (card !== undefined) return { card, known: [], backend: backend(card) }
    return { card: null, known: [...cards().keys()], backend: null }
  } catch (error) {
    const cardProblem = `its card cannot be read: ${reasonOf(error)}`
    return { card: null, cardProblem, known: [], backend: null }
  }
}

const ADVANCE = [
  'RunnerFailed',
  'RunnerShutdown',
  'RunnerShuttingDown',
  'RunnerIdle',
  'RunnerConnecting',
  'RunnerConnected',
  'RunnerLoading',
  'RunnerLoaded',
  'RunnerWarmingUp',
  'RunnerRunning',
  'RunnerReady'
]

function mostAdvanced (statuses: RunnerStatus[]): RunnerStatus | null {
  return statuses.toSorted((a, b) => ADVANCE.indexOf(kindOf(b)) - ADVANCE.indexOf(kindOf(a)))[0] ?? null
}
