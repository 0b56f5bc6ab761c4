import { bodyOf, type Assignment } from './shapes.js'
import { reasonOf } from '../process/errors.js'
import { kindOf } from '../process/states.js'
import type { Clock, Cluster, Logger, Section } from '../../../kernel/index.js'
import type { LocalInstance } from './document.js'
import type { RunnerSet } from './runner-set.js'
import type { Instance } from './sections.js'
import type { EndingInstance, RunnerStatus } from '../service.js'

/** Milliseconds between checks of draining runners, and before a removal is requested again. */
const DRAIN_LOOK_MS = 250
/** Limit in ms on a drain, because the deadline comes from another machine, whose clock may be wrong. */
const DRAIN_MAX_MS = 3_600_000
/** Milliseconds between two checks for unused instances. */
const IDLE_LOOK_MS = 1000
/** Milliseconds for which a model that has served no request yet is not unloaded for another one. */
const FRESH_MS = 5000
const REMOVED_MAX = 64
/** Milliseconds after a removal during which a node's memory reading may be stale. */
const SETTLING_MS = 3000
/** Milliseconds after which a runner that has not ended is no longer expected to free memory. */
const RELEASING_MS = 60_000
const EMPTY: ReadonlySet<string> =
  new Set(['RunnerIdle', 'RunnerConnecting', 'RunnerConnected', 'RunnerFailed', 'RunnerShutdown'])

/** A runner on this node whose instance is draining; `until` is the deadline in wall-clock ms. */
export interface Draining { instanceId: string, runnerId: string, until: number }

interface DrainMoment {
  draining: readonly Draining[]
  outstanding (runnerId: string): number
  /** Required idle time in ms, because a request routed before the drain may still arrive. */
  quietMs: number
  /** Wall-clock ms, compared with `until`. */
  now: number
  /** Monotonic ms, used for all durations. */
  mono: number
}

/** Decides when draining runners are done: after enough idle time, or past their deadline. */
export class Drains {
  readonly #runners = new Map<string, { deadline: number, quietSince: number | null, done: boolean }>()

  /** Returns the draining runners that are done by now; a runner that is done stays done. */
  check (moment: DrainMoment): Draining[] {
    const ids = new Set(moment.draining.map(({ runnerId }) => runnerId))
    for (const runnerId of this.#runners.keys()) if (!ids.has(runnerId)) this.#runners.delete(runnerId)
    return moment.draining.filter((one) => this.#isDone(one, moment))
  }

  done (runnerId: string): boolean { return this.#runners.get(runnerId)?.done === true }

  #isDone ({ runnerId, until }: Draining, { outstanding, quietMs, now, mono }: DrainMoment): boolean {
    const known = this.#runners.get(runnerId) ?? { deadline: Infinity, quietSince: null, done: false }
    // A jump of the wall clock may shorten the drain but never extend it.
    const left = Math.min(Math.max(until - now || 0, 0), DRAIN_MAX_MS)
    const deadline = Math.min(known.deadline, mono + left)
    const quietSince = outstanding(runnerId) > 0 ? null : known.quietSince ?? mono
    const done = known.done || mono >= deadline || (quietSince !== null && mono - quietSince >= quietMs)
    this.#runners.set(runnerId, { deadline, quietSince, done })
    return done
  }
}

/** A runner on this node whose instance is unloaded after `ttlSeconds` without use. */
export interface IdleUnloadable extends Assignment {
  ttlSeconds: number
  ready: boolean
  outstanding: number
}

export class IdleTimes {
  readonly #usedAt = new Map<string, number>()
  /** Runners that have served a task since they became ready. */
  readonly #served = new Set<string>()

  /** Call when a task of the runner ends. */
  used (runnerId: string, mono: number): void {
    this.#usedAt.set(runnerId, mono)
    this.#served.add(runnerId)
  }

  /** Seconds since the last task; null if the runner is new, because a request may be on its way to it. */
  seconds (runnerId: string, mono: number): number | null {
    const idleMs = mono - (this.#usedAt.get(runnerId) ?? mono)
    return idleMs < (this.#served.has(runnerId) ? 1 : FRESH_MS) ? null : idleMs / 1000
  }

  /** Returns the runners that have had no task for at least their `ttlSeconds`. */
  check (all: readonly IdleUnloadable[], mono: number): { runner: IdleUnloadable, idleSeconds: number }[] {
    const ready = new Set(all.filter((one) => one.ready).map(({ runnerId }) => runnerId))
    for (const runnerId of this.#usedAt.keys()) if (!ready.has(runnerId)) this.#usedAt.delete(runnerId)
    for (const runnerId of this.#served) if (!ready.has(runnerId)) this.#served.delete(runnerId)
    return all.flatMap((runner) => {
      if (!runner.ready) return []
      const usedAt = runner.outstanding > 0 ? mono : this.#usedAt.get(runner.runnerId) ?? mono
      this.#usedAt.set(runner.runnerId, usedAt)
      const idleSeconds = (mono - usedAt) / 1000
      return idleSeconds >= runner.ttlSeconds ? [{ runner, idleSeconds }] : []
    })
  }
}

export class Removals {
  #there = new Map<string, Instance>()
  readonly #removed = new Map<string, { instance: Instance, mono: number }>()

  /** Call with the current instances after each change. */
  update (instances: Iterable<Instance>, mono: number): void {
    const now = new Map([...instances].map((instance) => [bodyOf(instance).instanceId, instance]))
    for (const [id, instance] of this.#there) if (!now.has(id)) this.#removed.set(id, { instance, mono })
    // At the start of a session the document may be incomplete for a moment, so an instance may reappear.
    for (const id of now.keys()) this.#removed.delete(id)
    for (const id of [...this.#removed.keys()].slice(0, -REMOVED_MAX)) this.#removed.delete(id)
    this.#there = now
  }

  /** True shortly after a removal on other nodes than `self`: their memory readings may be older. */
  settling (mono: number, self: string): boolean {
    return [...this.#removed.values()].some((removed) => mono - removed.mono < SETTLING_MS &&
      Object.keys(bodyOf(removed.instance).shardAssignments.nodeToRunner).some((nodeId) => nodeId !== self))
  }

  /** Removed instances with a runner left on some node; `ends` returns whether a runner is left. */
  view (mono: number, ends: (nodeId: string, runnerId: string) => boolean): EndingInstance[] {
    for (const [id, removed] of this.#removed) {
      if (mono - removed.mono >= RELEASING_MS) this.#removed.delete(id)
    }
    return [...this.#removed.values()].flatMap(({ instance }) => {
      const { nodeToRunner } = bodyOf(instance).shardAssignments
      const nodeIds = Object.entries(nodeToRunner).filter(([nodeId, runnerId]) => ends(nodeId, runnerId))
        .map(([nodeId]) => nodeId)
      return nodeIds.length === 0 ? [] : [{ instance, nodeIds }]
    })
  }
}

export interface EndingsParts {
  nodeId: string
  clock: Clock
  log: Logger
  cluster: Pick<Cluster, 'nodes' | 'resolve'>
  sections: { instances: Section<Instance>, runners: Section<RunnerStatus> }
  /** The instances whose first rank is on this node. */
  led (): LocalInstance[]
  fleet: Pick<RunnerSet, 'get' | 'ready'>
  outstanding (runnerId: string): number
  /** Stops runners whose drain is done; resolves when their processes have ended. */
  reconcile (): Promise<void>
  remove (instanceId: string): Promise<unknown>
  /** Asks the master to drain the instance within `seconds`. */
  drain (instanceId: string, seconds: number): Promise<unknown>
  unloaded (event: { instanceId: string, modelId: string, idleSeconds: number }): void
}

/**
 * Ends instances: removes the drained ones that this node leads, drains unused ones, and tracks which removed
 * instances still hold memory.
 */
export class InstanceShutdown {
  readonly #parts: EndingsParts
  readonly #drains = new Drains()
  readonly #idle = new IdleTimes()
  readonly #removals = new Removals()
  /** Drained instances whose removal is in progress, and those whose removal has failed before. */
  readonly #removing = new Set<string>()
  readonly #refused = new Set<string>()
  /** Unused instances for which a drain was requested. */
  readonly #unloading = new Set<string>()
  #swaps: readonly Swap[] = []
  readonly #undo: (() => void)[]
  #stopDrainTimer: (() => void) | null = null
  #closed = false

  constructor (parts: EndingsParts) {
    this.#parts = parts
    const update = (): void => {
      this.#removals.update(
        [...parts.sections.instances.entries()].map(({ value }) => value), parts.clock.mono())
      this.#checkDrains()
    }
    this.#undo = [
      parts.sections.instances.observe(update),
      parts.clock.every(IDLE_LOOK_MS, () => { this.#checkIdle() })
    ]
    update()
  }

  /** True if the runner must stop although the document still has its instance. */
  done (runnerId: string): boolean { return this.#drains.done(runnerId) }

  /** Call when a task of a runner on this node ends. */
  taskEnded (runnerId: string): void {
    this.#idle.used(runnerId, this.#parts.clock.mono())
    if (this.#stopDrainTimer !== null) this.#checkDrains()
  }

  releasing (): EndingInstance[] {
    const { clock, cluster, sections: { runners } } = this.#parts
    return this.#removals.view(clock.mono(), (nodeId, runnerId) => {
      const status = runners.get(runnerId, nodeId)
      return status !== undefined && !EMPTY.has(kindOf(status)) && cluster.resolve(nodeId)?.live === true
    })
  }

  /** Seconds without a task; null if the instance of a runner that this node leads must stay loaded now. */
  idleSeconds (runnerId: string): number | null {
    const { clock, fleet, outstanding } = this.#parts
    const member = fleet.get(runnerId)
    const mono = clock.mono()
    if (member?.readyAt == null || outstanding(runnerId) > 0) return null
    return mono < staysUntil(this.#swaps, member.assignment.modelId, { ...member, readyAt: member.readyAt })
      ? null : this.#idle.seconds(runnerId, mono)
  }

  /** Unloads an instance that this node leads, so that model `into` fits, unless it must stay. */
  evict (instanceId: string, into: string): void {
    const { led, clock } = this.#parts
    const found = led().find(({ ring: { instanceId: id, placement, drainUntil } }) =>
      id === instanceId && placement?.ttlSeconds != null && drainUntil === undefined)
    const idleSeconds = found === undefined ? null : this.idleSeconds(found.assignment.runnerId)
    if (found === undefined || idleSeconds === null || this.#unloading.has(instanceId)) return
    const { modelId } = found.assignment
    void this.#unload(found.assignment, Math.round(idleSeconds)).then((done) => {
      const swap = { models: [modelId, into], mono: clock.mono() }
      if (done) this.#swaps = [...this.#swaps, swap].slice(-SWAPS_MAX)
    })
  }

  settling (): boolean { return this.#removals.settling(this.#parts.clock.mono(), this.#parts.nodeId) }

  close (): void {
    this.#closed = true
    this.#stopDrainTimer?.()
    for (const undo of this.#undo) undo()
  }

  /** Ends the instances whose drain is done. Also runs on a timer while an instance drains. */
  #checkDrains (): void {
    const { clock, cluster, led, outstanding } = this.#parts
    const draining = (this.#closed ? [] : led()).flatMap(({ ring, assignment: { runnerId } }): Draining[] => {
      const { instanceId, drainUntil } = ring
      return drainUntil === undefined ? [] : [{ instanceId, runnerId, until: Date.parse(drainUntil) }]
    })
    // Other nodes may still route requests here until they see the drain.
    const others = draining.length > 0 && cluster.nodes().some(({ self, live }) => live && !self)
    const quietMs = others ? DRAIN_LOOK_MS : 0
    const moment = { draining, outstanding, quietMs, now: clock.now(), mono: clock.mono() }
    for (const one of this.#drains.check(moment)) {
      if (!this.#removing.has(one.instanceId)) void this.#remove(one)
    }
    if (draining.length > 0) {
      this.#stopDrainTimer ??= clock.every(DRAIN_LOOK_MS, () => { this.#checkDrains() })
    } else {
      this.#stopDrainTimer?.()
      this.#stopDrainTimer = null
      this.#refused.clear()
    }
  }

  async #remove ({ instanceId, runnerId }: Draining): Promise<void> {
    const { reconcile, remove, log } = this.#parts
    this.#removing.add(instanceId)
    try {
      await reconcile()
      await remove(instanceId)
    } catch (error) {
      if (!this.#refused.has(instanceId)) {
        log.warn({ instanceId, runnerId, error: reasonOf(error) },
          'a drained instance could not be removed; retrying')
      }
      this.#refused.add(instanceId)
    } finally {
      this.#removing.delete(instanceId)
    }
  }

  #checkIdle (): void {
    const { clock, led, fleet, outstanding } = this.#parts
    const all = led().flatMap(({ ring: { placement, drainUntil }, assignment }): IdleUnloadable[] => {
      const ttlSeconds = placement?.ttlSeconds ?? null
      if (ttlSeconds === null || drainUntil !== undefined) return []
      const member = fleet.get(assignment.runnerId)
      const ready = member !== undefined && fleet.ready(member)
      return [{ ...assignment, ttlSeconds, ready, outstanding: outstanding(assignment.runnerId) }]
    })
    const there = new Set(all.map(({ instanceId }) => instanceId))
    for (const instanceId of this.#unloading) if (!there.has(instanceId)) this.#unloading.delete(instanceId)
    for (const { runner, idleSeconds } of this.#idle.check(all, clock.mono())) {
      if (!this.#unloading.has(runner.instanceId)) void this.#unload(runner, Math.round(idleSeconds))
    }
  }

  async #unload ({ instanceId, modelId }: Assignment, idleSeconds: number): Promise<boolean> {
    const { drain, unloaded, log } = this.#parts
    this.#unloading.add(instanceId)
    try {
      // A request that arrives before the drain may take as long as it needs.
      await drain(instanceId, DRAIN_MAX_MS / 1000)
      unloaded({ instanceId, modelId, idleSeconds })
      return true
    } catch (error) {
      this.#unloading.delete(instanceId)
      log.debug({ instanceId, modelId, error: reasonOf(error) }, 'an idle instance could not be unloaded yet')
      return false
    }
  }
}

export const SWAPS_MAX = 64
/** A model was unloaded for another one: the two models, and when, in monotonic ms. */
export interface Swap { models: readonly string[], mono: number }
/** From this many swaps of a pair within WINDOW load times, the loaded model stays for STAY load times. */
const SWAPS_LEAST = 3
const WINDOW = 10
const STAY = 3

/**
 * Until when a model must stay loaded, because it keeps taking turns with another one. All times are
 * monotonic ms. Pure.
 */
export function staysUntil (
  swaps: readonly Swap[], modelId: string, { startedAt, readyAt }: { startedAt: number, readyAt: number }
): number {
  const loadMs = readyAt - startedAt
  const counts = new Map<string, number>()
  for (const { models, mono } of swaps) {
    const other = models.find((one) => one !== modelId)
    if (!models.includes(modelId) || other === undefined || mono < readyAt - WINDOW * loadMs) continue
    counts.set(other, (counts.get(other) ?? 0) + 1)
  }
  return Math.max(0, ...counts.values()) >= SWAPS_LEAST ? readyAt + STAY * loadMs : readyAt
}
