import type { Clock, Cluster, Logger, Section } from '../../../kernel/index.js'
import { createDrainer, DRAIN_LOOK_MS } from './drain.js'
import type { Fleet } from './fleet.js'
import { createUnloader } from './idle.js'
import type { UnloaderParts } from './idle.js'
import type { LedInstance, DocumentInstances } from './document.js'
import { kindOf } from '../process/states.js'
import type { Releasing, RunnerStatus } from '../service.js'
import { bodyOf } from './shapes.js'
import type { Instance } from './shapes.js'
import type { TaskTable } from '../routing/tasks.js'

/** Deadline of the drain of an idle instance, seconds: a request may have arrived just before it. */
const UNLOAD_SECONDS = 30

interface LifecycleParts {
  clock: Clock
  log: Logger
  cluster: Pick<Cluster, 'nodes' | 'resolve'>
  sections: { instances: Section<Instance>, runners: Section<RunnerStatus> }
  instances: Pick<DocumentInstances, 'led'>
  fleet: Pick<Fleet, 'get' | 'ready'>
  tasks: Pick<TaskTable, 'outstanding'>
  reconcile (): Promise<void>
  unplace (instanceId: string): Promise<boolean>
  drain (instanceId: string, seconds: number): Promise<boolean>
  unloaded: UnloaderParts['unloaded']
}

/** How instances of this node end: drained, unloaded when unused, and their memory freed. */
export interface Lifecycle {
  /** True for a runner that must not run any more although its instance is still in the document. */
  done (runnerId: string): boolean
  /** Call it when a task of a runner of this node has ended. */
  taskEnded (runnerId: string): void
  releasing (): Releasing[]
  settling (): boolean
  close (): void
}

export function openLifecycle (parts: LifecycleParts): Lifecycle {
  const { clock, log, cluster, sections, instances, fleet, tasks } = parts
  let closed = false
  const led = (): LedInstance[] => closed ? [] : instances.led()
  const outstanding = (runnerId: string): number => tasks.outstanding(runnerId)
  const drainer = createDrainer({
    clock,
    log,
    outstanding,
    draining: () => led().flatMap(({ ring: { instanceId, drainUntil }, assignment: { runnerId } }) =>
      drainUntil === undefined ? [] : [{ instanceId, runnerId, until: Date.parse(drainUntil) }]),
    // Other nodes, which may route requests here, learn of the drain a moment later.
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
    done: drainer.done,
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

/** In these states a runner uses no memory for the model: it has not begun to load it, or has ended. */
const EMPTY: ReadonlySet<string> =
  new Set(['RunnerIdle', 'RunnerConnecting', 'RunnerConnected', 'RunnerFailed', 'RunnerShutdown'])

/** Number of removed instances that are remembered; the oldest are dropped. */
const WATCHED_MAX = 64
/** For this long after a removal a node's reading of its memory may still include it, ms. */
const SETTLING_MS = 3000
/** A runner that has not ended by then is no longer expected to free its memory, ms. */
const WATCHED_MS = 60_000

interface Removed { instance: Instance, mono: number }

/** Remembers which instances were removed lately. Times are monotonic ms, passed in. */
export class Removals {
  #there = new Map<string, Instance>()
  readonly #removed = new Map<string, Removed>()

  /** Tells which instances there are now. */
  update (instances: Iterable<Instance>, mono: number): void {
    const now = new Map([...instances].map((instance) => [bodyOf(instance).instanceId, instance]))
    for (const [id, instance] of this.#there) if (!now.has(id)) this.#removed.set(id, { instance, mono })
    // In a new session the document may fill up a moment later: an instance can come back.
    for (const id of now.keys()) this.#removed.delete(id)
    for (const id of [...this.#removed.keys()].slice(0, -WATCHED_MAX)) this.#removed.delete(id)
    this.#there = now
  }

  /** True just after a removal, while nodes' readings of their memory may be older than it. */
  settling (mono: number): boolean {
    return [...this.#removed.values()].some((removed) => mono - removed.mono < SETTLING_MS)
  }

  /** The removed instances that still have a runner on some node, as `ends` says. */
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
