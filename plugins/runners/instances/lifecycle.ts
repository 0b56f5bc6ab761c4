import type { Clock, Cluster, Logger, Section } from '../../../kernel/index.js'
import { createDrainer, DRAIN_LOOK_MS } from './drain.js'
import type { Fleet } from './fleet.js'
import { createUnloader } from './idle.js'
import type { UnloaderParts } from './idle.js'
import type { Led, LocalInstances } from './document.js'
import { kindOf } from '../process/states.js'
import type { Releasing, RunnerStatus } from '../service.js'
import { bodyOf } from './shapes.js'
import type { Instance } from './shapes.js'
import type { TaskTable } from '../routing/tasks.js'

/** How long requests that come at the last moment may take when an idle instance is unloaded, seconds. */
const UNLOAD_SECONDS = 30

export interface LifecycleParts {
  clock: Clock
  log: Logger
  cluster: Pick<Cluster, 'nodes' | 'resolve'>
  sections: { instances: Section<Instance>, runners: Section<RunnerStatus> }
  instances: Pick<LocalInstances, 'led'>
  fleet: Pick<Fleet, 'get' | 'ready'>
  tasks: Pick<TaskTable, 'outstanding'>
  reconcile (): Promise<void>
  unplace (instanceId: string): Promise<boolean>
  drain (instanceId: string, seconds: number): Promise<boolean>
  unloaded: UnloaderParts['unloaded']
}

/** How instances of this node end: drained, unloaded when nobody uses them, and giving memory back. */
export interface Lifecycle {
  /** True for a runner that is not to run any more, though its instance is still there. */
  over (runnerId: string): boolean
  /** To be called when a task of a runner of this node has ended. */
  taskEnded (runnerId: string): void
  releasing (): Releasing[]
  settling (): boolean
  close (): void
}

export function openLifecycle (parts: LifecycleParts): Lifecycle {
  const { clock, log, cluster, sections, instances, fleet, tasks } = parts
  let closed = false
  const led = (): Led[] => closed ? [] : instances.led()
  const outstanding = (runnerId: string): number => tasks.outstanding(runnerId)
  const drainer = createDrainer({
    clock,
    log,
    outstanding,
    draining: () => led().flatMap(({ ring: { instanceId, drainUntil }, assignment: { runnerId } }) =>
      drainUntil === undefined ? [] : [{ instanceId, runnerId, until: Date.parse(drainUntil) }]),
    // Nodes that route requests hear of it a moment later.
    quietMs: () => cluster.nodes().some(({ self, live }) => live && !self) ? DRAIN_LOOK_MS : 0,
    reconcile: parts.reconcile,
    remove: parts.unplace
  })
  const unloader = createUnloader({
    clock,
    log,
    unloadable: () => led().flatMap(({ ring: { placement, drainUntil }, assignment }) => {
      const ttlSeconds = placement?.ttlSeconds ?? null
      if (ttlSeconds === null || drainUntil !== undefined) return []
      const member = fleet.get(assignment.runnerId)
      const ready = member !== undefined && fleet.ready(member)
      return [{ ...assignment, ttlSeconds, ready, outstanding: outstanding(assignment.runnerId) }]
    }),
    drain: async (instanceId) => await parts.drain(instanceId, UNLOAD_SECONDS),
    unloaded: parts.unloaded
  })
  const removals = new Removals()
  const look = (): void => {
    removals.update([...sections.instances.entries()].map(({ value }) => value), clock.mono())
    drainer.look()
  }
  const ends = (nodeId: string, runnerId: string): boolean => {
    const status = sections.runners.get(runnerId, nodeId)
    return status !== undefined && !EMPTY.has(kindOf(status)) && cluster.resolve(nodeId)?.live === true
  }
  const ignore = sections.instances.observe(look)
  look()
  return {
    over: drainer.over,
    taskEnded (runnerId) {
      unloader.used(runnerId)
      drainer.taskEnded()
    },
    releasing: () => removals.view(clock.mono(), ends),
    settling: () => removals.settling(clock.mono()),
    close () {
      closed = true
      ignore()
      drainer.close()
      unloader.close()
    }
  }
}

/** A runner in one of these holds none of the model: it has not begun to load it, or is gone. */
const EMPTY: ReadonlySet<string> =
  new Set(['RunnerIdle', 'RunnerConnecting', 'RunnerConnected', 'RunnerFailed', 'RunnerShutdown'])

/** So many removed instances are watched, the newest. */
const WATCHED_MAX = 64
/** So long after a removal the readings of a node may still show its memory in use, ms. */
export const SETTLING_MS = 3000
/** A runner that has not ended by then gives nothing back any more, ms. */
const WATCHED_MS = 60_000

interface Removed { instance: Instance, mono: number }

/** Remembers what was removed lately. Times are monotonic ms and an argument. */
export class Removals {
  #there = new Map<string, Instance>()
  readonly #removed = new Map<string, Removed>()

  /** Tells which instances there are now. */
  update (instances: Iterable<Instance>, mono: number): void {
    const now = new Map([...instances].map((instance) => [bodyOf(instance).instanceId, instance]))
    for (const [id, instance] of this.#there) if (!now.has(id)) this.#removed.set(id, { instance, mono })
    // A new session may learn of them a moment later.
    for (const id of now.keys()) this.#removed.delete(id)
    for (const id of [...this.#removed.keys()].slice(0, -WATCHED_MAX)) this.#removed.delete(id)
    this.#there = now
  }

  /** True just after a removal: what nodes say of their memory may be older. */
  settling (mono: number): boolean {
    return [...this.#removed.values()].some((removed) => mono - removed.mono < SETTLING_MS)
  }

  /** Those with nodes on which `ends` says that their runner has not gone yet. */
  view (mono: number, ends: (nodeId: string, runnerId: string) => boolean): Releasing[] {
    for (const [id, removed] of this.#removed) {
      if (mono - removed.mono >= WATCHED_MS) this.#removed.delete(id)
    }
    return [...this.#removed.values()].flatMap(({ instance }) => {
      const { nodeToRunner } = bodyOf(instance).shardAssignments
      const nodeIds = Object.entries(nodeToRunner)
        .filter(([nodeId, runnerId]) => ends(nodeId, runnerId))
        .map(([nodeId]) => nodeId)
      return nodeIds.length === 0 ? [] : [{ instance, nodeIds }]
    })
  }
}
