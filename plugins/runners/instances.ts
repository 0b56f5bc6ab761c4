import type { Bundle, ModelCard, Section, SvcError } from '../../kernel/index.js'
import type { Models } from '../staging/service.js'
import type { BackendChoice } from './backends.js'
import type { errors } from './errors.js'
import type { Instances, RunnerStatus } from './service.js'
import { assignmentOf, namedRunners, soloInstance } from './shapes.js'
import type { Assignment, Instance } from './shapes.js'

export interface InstancesParts {
  section: Section<Instance>
  nodeId: string
  bundle: Bundle
  newId (): string
  /** Where models that are not here yet can be had from. */
  models?: Models | undefined
  /** Resolves when the files that tell which backends and models there are have been looked at. */
  probed: Promise<unknown>
  backend (card: ModelCard): BackendChoice | null
  /** The runner has used up its attempts. */
  gaveUp (runnerId: string): boolean
  /** Brings the runners in line with the section; see `createReconciler`. */
  reconcile (): Promise<void>
  place: Instances['place']
  unplace (instanceId: string, commandId?: string): Promise<boolean>
  error (reason: keyof typeof errors, message: string, details?: Record<string, unknown>): SvcError
}

/** The instances, each placed on one node as a whole. */
export interface LocalInstances extends Pick<Instances, 'ensure' | 'remove'> {
  /** What the control document asks of this node. */
  assignments (): Assignment[]
  /** True when an instance of the model names a node. */
  placed (modelId: string): boolean
  /** The state view: id to instance. */
  view (): Record<string, Instance>
  /** The state view of the runners: those a live instance names, no other. */
  runners(
    section: Section<RunnerStatus>,
    local: (runnerId: string) => RunnerStatus | undefined
  ): Record<string, RunnerStatus>
}

export function createInstances (parts: InstancesParts): LocalInstances {
  const all = (): Instance[] => [...parts.section.entries()].map(({ value }) => value)
  const assignments = (): Assignment[] =>
    all().flatMap((instance) => assignmentOf(instance, parts.nodeId) ?? [])

  async function create (modelId: string): Promise<{ instanceId: string }> {
    const { bundle, models } = parts
    const elsewhere = bundle.model(modelId) === undefined && models?.card(modelId) !== undefined
    if (elsewhere) await models.ensure(modelId)
    const card = placeable(parts, modelId)
    const ids = { instanceId: parts.newId(), runnerId: parts.newId(), nodeId: parts.nodeId }
    // What is set to start here starts: a master without readings must not hold up a boot.
    const instanceId = await parts.place(soloInstance(ids, card), { force: true })
    void parts.reconcile()
    return { instanceId }
  }

  async function remove (instanceId: string, commandId?: string): Promise<void> {
    const removed = await parts.unplace(instanceId, commandId)
    if (!removed) throw parts.error('instance_not_found', `No instance ${instanceId}.`)
    await parts.reconcile()
  }

  return {
    async ensure (modelId) {
      await parts.probed
      const existing = assignments().find((assignment) => assignment.modelId === modelId)
      if (existing === undefined) return await create(modelId)
      if (!parts.gaveUp(existing.runnerId)) return { instanceId: existing.instanceId }
      await remove(existing.instanceId)
      return await create(modelId)
    },
    remove,
    assignments,
    placed: (modelId) => all().some(({ RingInstance: ring }) => ring.shardAssignments.modelId === modelId),
    view: () => Object.fromEntries(all().map((instance) => [instance.RingInstance.instanceId, instance])),
    runners (section, local) {
      const named = namedRunners(all())
      const shown = [...section.entries()].filter(({ key }) => named.has(key))
      return Object.fromEntries(
        shown.map(({ key, nodeId, value }) => [key, nodeId === parts.nodeId ? (local(key) ?? value) : value])
      )
    }
  }
}

/** The card of a model that can be placed here. Throws `model_unknown` or `no_backend`. */
function placeable ({ bundle, backend, error }: InstancesParts, modelId: string): ModelCard {
  const card = bundle.model(modelId)?.card
  if (card === undefined) {
    const known = bundle.models().map((model) => model.card.modelId)
    throw error('model_unknown', `No model is called ${modelId} here.`, { param: 'model_id', known })
  }
  const choice = backend(card)
  if (choice === null) {
    throw error('no_backend', `No enabled plugin brings engine ${card.engine} of ${modelId}.`)
  }
  if (choice.backend === null) {
    throw error('no_backend', `${modelId} cannot run here: ${choice.problem}.`, { remedy: choice.remedy })
  }
  return card
}
