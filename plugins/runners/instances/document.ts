import type { Section, SvcError, ModelCard, Logger, Session } from '../../../kernel/index.js'
import type { errors } from '../errors.js'
import type { Instances, RunnerStatus } from '../service.js'
import { assignmentOf, bodyOf, leads, namedRunners, shardOf } from './shapes.js'
import type { Assignment, Instance, RingInstance, ShardBody } from './shapes.js'

export interface ReadInstancesParts {
  section: Section<Instance>
  nodeId: string
  /** Brings the runners in line with the section; see `createReconciler`. */
  reconcile (): Promise<void>
  unplace (instanceId: string, commandId?: string): Promise<boolean>
  /** Has the master let it drain for at most so many seconds; false when it was gone. */
  drain (instanceId: string, seconds: number, commandId?: string): Promise<boolean>
  error (reason: keyof typeof errors, message: string, details?: Record<string, unknown>): SvcError
}

/** What the control document says of instances, as this node needs it. */
export interface DocumentInstances extends Pick<Instances, 'remove' | 'drain'> {
  /** The runners that this node is to have. */
  assignments (): Assignment[]
  /** The instances whose first rank is on this node, which drains and unloads them for all ranks. */
  led (): LedInstance[]
  /** The part of the model that an assignment stands for; null when it is not known. */
  shard (assignment: Assignment): ShardBody | null
  /** `instances` of /state. */
  view (): Record<string, Instance>
  /** `runners` of /state: only those that an instance names. */
  runners(
    section: Section<RunnerStatus>,
    local: (runnerId: string) => RunnerStatus | undefined
  ): Record<string, RunnerStatus>
}

/** An instance with its runner on this node. */
export interface LedInstance { ring: RingInstance, assignment: Assignment }

export function readInstances (parts: ReadInstancesParts): DocumentInstances {
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

/** An index of the instances by model, built again after each change of the document. */
export class PlacedInstances {
  readonly #section: Section<Instance>
  #byModel: Map<string, RingInstance[]> | null = null

  constructor (section: Section<Instance>) {
    this.#section = section
    section.observe(() => { this.#byModel = null })
  }

  /** The instances of a model; of all models without one. */
  of (modelId?: string): readonly RingInstance[] {
    this.#byModel ??= this.#read()
    return modelId === undefined ? [...this.#byModel.values()].flat() : this.#byModel.get(modelId) ?? []
  }

  #read (): Map<string, RingInstance[]> {
    const byModel = new Map<string, RingInstance[]>()
    for (const { value } of this.#section.entries()) {
      const ring = bodyOf(value)
      const { modelId } = ring.shardAssignments
      byModel.set(modelId, [...byModel.get(modelId) ?? [], ring])
    }
    return byModel
  }
}

/** The card in the first of these instances, which every instance carries along. */
export function placedCard ([ring]: readonly RingInstance[]): ModelCard | undefined {
  const [shard] = Object.values(ring?.shardAssignments.runnerToShard ?? {})
  if (shard === undefined) return undefined
  const { storageSize, files, ...card } = (Object.values(shard)[0] as ShardBody).modelCard
  return {
    ...card, totalBytes: storageSize.inBytes,
    files: files.map(({ size, ...file }) => ({ ...file, bytes: size.inBytes }))
  }
}

/** Takes no new requests. */
export const isDraining = ({ drainUntil }: RingInstance): boolean => drainUntil !== undefined

interface Created { instanceId: string, modelId: string, nodeIds: string[] }

interface AnnouncerParts {
  section: Section<Instance>
  session: Pick<Session, 'isMaster' | 'sessionId'>
  log: Logger
  /** Resolves when what the section holds is acknowledged. */
  settled (): Promise<void>
  created (event: Created): void
  deleted (event: Omit<Created, 'nodeIds'>): void
}

/**
 * Emits the events of instances that were created and deleted. Only the master does, once for each, and only
 * after the cluster has acknowledged the change: an entry that is lost with its master gets no event. Call
 * the result after each change of the section or the session.
 */
export function createAnnouncer (parts: AnnouncerParts): () => Promise<void> {
  const { section, session, settled, created, deleted } = parts
  let known = new Map<string, Created>()
  const look = (): Map<string, Created> => new Map([...section.entries()].map(({ key, value }) => {
    const { shardAssignments: { modelId, nodeToRunner } } = bodyOf(value)
    return [key, { instanceId: key, modelId, nodeIds: Object.keys(nodeToRunner) }]
  }))
  known = look()
  return async () => {
    const { sessionId } = session
    const seen = look()
    if (session.isMaster) {
      try { await settled() } catch (err) {
        // Not master any more: the next one emits the events of what the cluster kept.
        parts.log.debug({ err }, 'a change of the instances is not acknowledged')
        return
      }
    }
    // Another session has begun meanwhile; its start calls this again.
    if (session.isMaster && session.sessionId !== sessionId) return
    const now = look()
    const tells = session.isMaster
    for (const [id, event] of seen) {
      if (!now.has(id) || known.has(id)) continue
      known.set(id, event)
      if (tells) created(event)
    }
    for (const [id, { modelId }] of [...known]) {
      if (now.has(id) || seen.has(id)) continue
      known.delete(id)
      if (tells) deleted({ instanceId: id, modelId })
    }
  }
}
