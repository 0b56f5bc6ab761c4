import type { Logger, ModelCard, Section, Session } from '../../../kernel/index.js'
import type { RunnerStatus } from '../service.js'
import { assignmentOf, bodyOf, leads, namedRunners, type Assignment } from './shapes.js'
import type { Instance, RingInstance, ShardBody } from './sections.js'

export interface LocalInstance { ring: RingInstance, assignment: Assignment }

export class PlacedInstances {
  readonly #section: Section<Instance>
  readonly #nodeId: string
  #byModel: Map<string, RingInstance[]> | null = null

  constructor (section: Section<Instance>, nodeId: string) {
    this.#section = section
    this.#nodeId = nodeId
    section.observe(() => { this.#byModel = null })
  }

  get (instanceId: string): Instance | undefined { return this.#section.get(instanceId) }

  /** The `instances` field of /state, by instance id. */
  view (): Record<string, Instance> {
    return Object.fromEntries(this.#all().map((instance) => [bodyOf(instance).instanceId, instance]))
  }

  of (modelId?: string): readonly RingInstance[] {
    this.#byModel ??= this.#index()
    return modelId === undefined ? [...this.#byModel.values()].flat() : this.#byModel.get(modelId) ?? []
  }

  assignments (): Assignment[] {
    return this.#all().flatMap((instance) => assignmentOf(instance, this.#nodeId) ?? [])
  }

  /** Instances whose first rank is on this node; this node drains and unloads them for all ranks. */
  led (): LocalInstance[] {
    return this.#all().flatMap((instance) => {
      const assignment = assignmentOf(instance, this.#nodeId)
      const first = assignment !== null && leads(instance, this.#nodeId)
      return first ? [{ ring: bodyOf(instance), assignment }] : []
    })
  }

  /**
   * The `runners` field of /state: the statuses of all runners of placed instances. `local` returns the
   * latest status of a runner on this node.
   */
  runners (
    section: Section<RunnerStatus>, local: (runnerId: string) => RunnerStatus | undefined
  ): Record<string, RunnerStatus> {
    const named = namedRunners(this.#all())
    const shown = [...section.entries()].filter(({ key }) => named.has(key))
    return Object.fromEntries(
      shown.map(({ key, nodeId, value }) => [key, nodeId === this.#nodeId ? local(key) ?? value : value]))
  }

  #all (): Instance[] { return [...this.#section.entries()].map(({ value }) => value) }

  #index (): Map<string, RingInstance[]> {
    const byModel = new Map<string, RingInstance[]>()
    for (const ring of this.#all().map(bodyOf)) {
      const { modelId } = ring.shardAssignments
      byModel.set(modelId, [...byModel.get(modelId) ?? [], ring])
    }
    return byModel
  }
}

export function placedCard ([ring]: readonly RingInstance[]): ModelCard | undefined {
  const [shard] = Object.values(ring?.shardAssignments.runnerToShard ?? {})
  if (shard === undefined) return undefined
  const { storageSize, files, ...card } = (Object.values(shard)[0] as ShardBody).modelCard
  return {
    ...card, totalBytes: storageSize.inBytes,
    files: files.map(({ size, ...file }) => ({ ...file, bytes: size.inBytes }))
  }
}

export const isDraining = ({ drainUntil }: RingInstance): boolean => drainUntil !== undefined

interface Created { instanceId: string, modelId: string, nodeIds: string[] }
type Deleted = Omit<Created, 'nodeIds'> & { reason?: string }

interface AnnouncerParts {
  section: Section<Instance>
  session: Pick<Session, 'isMaster' | 'sessionId'>
  log: Logger
  /** Resolves when the cluster has acknowledged the current instances. */
  settled (): Promise<void>
  created (event: Created): void
  deleted (event: Deleted): void
  /** Sends ended instances, whose `created` event this node emitted, to the master, which calls `gone`. */
  report (instances: Deleted[]): Promise<unknown>
}

export type Announcer = ReturnType<typeof createAnnouncer>

const REMOVED_MAX = 4096

/**
 * Emits the events for created and deleted instances: only on the master, once per instance, and only after
 * the cluster has acknowledged the change, so that an entry lost with its master gets no event. With quorum
 * 1, the losing side of a partition drops acknowledged entries; the former master of that side reports them,
 * so that each `created` has its `deleted`.
 */
export function createAnnouncer (parts: AnnouncerParts) {
  const { section, session, settled, created, deleted } = parts
  const snapshot = (): Map<string, Created> => new Map([...section.entries()].map(({ key, value }) => {
    const { shardAssignments: { modelId, nodeToRunner } } = bodyOf(value)
    return [key, { instanceId: key, modelId, nodeIds: Object.keys(nodeToRunner) }]
  }))
  const known = snapshot()
  /** Instances whose `created` event this node emitted and whose `deleted` event is still due. */
  const own = new Set<string>()
  const removed = new Set<string>()
  const announce = async (): Promise<void> => {
    const { sessionId } = session
    const seen = snapshot()
    if (session.isMaster) {
      try { await settled() } catch (err) {
        // This node is no longer the master; the next one emits the events for entries that survive.
        parts.log.debug({ err }, 'a change of the instances was not acknowledged')
        return
      }
    }
    // A new session has begun, and its start calls this function again.
    if (session.isMaster && session.sessionId !== sessionId) return
    const now = snapshot()
    for (const [id, event] of seen) {
      if (!now.has(id) || known.has(id)) continue
      known.set(id, event)
      if (!session.isMaster) continue
      created(event)
      own.add(id)
    }
    const ended: Deleted[] = []
    for (const [instanceId, { modelId }] of [...known]) {
      if (now.has(instanceId) || seen.has(instanceId)) continue
      known.delete(instanceId)
      removed.add(instanceId)
      if (session.isMaster) deleted({ instanceId, modelId })
      else if (own.has(instanceId)) ended.push({ instanceId, modelId })
      own.delete(instanceId)
    }
    for (const id of [...removed].slice(0, -REMOVED_MAX)) removed.delete(id)
    if (ended.length === 0) return
    await parts.report(ended).catch((err: unknown) => {
      parts.log.warn({ err, instances: ended }, 'ended instances could not be reported')
    })
  }
  return {
    /** Call after each change to the instances or the session. */
    look: announce,
    /** On the master: emits `deleted` for instances that it never had, as an earlier session lost them. */
    gone (instances: readonly Deleted[]): void {
      for (const { instanceId, modelId } of instances) {
        if (known.has(instanceId) || removed.has(instanceId)) continue
        removed.add(instanceId)
        deleted({ instanceId, modelId, reason: 'session_lost' })
      }
    }
  }
}
