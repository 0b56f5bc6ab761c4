import type { Clock, Cluster, Logger, Section } from '../../../kernel/index.js'
import { createDrainer, DRAIN_LOOK_MS } from './drain.js'
import type { Fleet } from './fleet.js'
import { createUnloader } from './idle.js'
import type { UnloaderParts } from './idle.js'
import type { Led, LocalInstances } from './instances.js'
import { kindOf } from '../process/states.js'
import { Removals } from './releasing.js'
import type { Releasing, RunnerStatus } from '../service.js'
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
