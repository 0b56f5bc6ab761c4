import type { Section, SvcError } from '../../../kernel/index.js'
import type { errors } from '../errors.js'
import type { Instances, RunnerStatus } from '../service.js'
import { assignmentOf, bodyOf, leads, namedRunners, shardOf } from './shapes.js'
import type { Assignment, Instance, RingInstance, ShardBody } from './shapes.js'

export interface InstancesParts {
  section: Section<Instance>
  nodeId: string
  /** Brings the runners in line with the section; see `createReconciler`. */
  reconcile (): Promise<void>
  unplace (instanceId: string, commandId?: string): Promise<boolean>
  /** Has the master let it drain for at most so many seconds; false when it was gone. */
  drain (instanceId: string, seconds: number, commandId?: string): Promise<boolean>
  error (reason: keyof typeof errors, message: string, details?: Record<string, unknown>): SvcError
}

/** The instances, each placed on one node as a whole. */
export interface LocalInstances extends Pick<Instances, 'remove' | 'drain'> {
  /** What the control document asks of this node. */
  assignments (): Assignment[]
  /** The instances whose first rank is on this node: it sees how they are used, and brings them to an end. */
  led (): Led[]
  /** The part of the model that an assignment stands for; null when it is not known. */
  shard (assignment: Assignment): ShardBody | null
  /** The state view: id to instance. */
  view (): Record<string, Instance>
  /** The state view of the runners: those a live instance names, no other. */
  runners(
    section: Section<RunnerStatus>,
    local: (runnerId: string) => RunnerStatus | undefined
  ): Record<string, RunnerStatus>
}

/** An instance with its runner on this node. */
export interface Led { ring: RingInstance, assignment: Assignment }

export function createInstances (parts: InstancesParts): LocalInstances {
  const all = (): Instance[] => [...parts.section.entries()].map(({ value }) => value)
  const assignments = (): Assignment[] =>
    all().flatMap((instance) => assignmentOf(instance, parts.nodeId) ?? [])

  const remove: Instances['remove'] = async (instanceId, { commandId, ended = true } = {}) => {
    const removed = await parts.unplace(instanceId, commandId)
    if (!removed) throw parts.error('instance_not_found', `No instance ${instanceId}.`)
    if (ended) await parts.reconcile()
  }

  return {
    remove,
    async drain (instanceId, { seconds, commandId }) {
      const found = await parts.drain(instanceId, seconds, commandId)
      if (!found) throw parts.error('instance_not_found', `No instance ${instanceId}.`)
    },
    assignments,
    led: () => all().flatMap((instance) => {
      const assignment = assignmentOf(instance, parts.nodeId)
      const first = assignment !== null && leads(instance, parts.nodeId)
      return first ? [{ ring: bodyOf(instance), assignment }] : []
    }),
    shard ({ instanceId }) {
      const instance = parts.section.get(instanceId)
      return instance === undefined ? null : shardOf(instance, parts.nodeId)
    },
    view: () => Object.fromEntries(all().map((instance) => [bodyOf(instance).instanceId, instance])),
    runners (section, local) {
      const named = namedRunners(all())
      const shown = [...section.entries()].filter(({ key }) => named.has(key))
      return Object.fromEntries(
        shown.map(({ key, nodeId, value }) => [key, nodeId === parts.nodeId ? (local(key) ?? value) : value])
      )
    }
  }
}
