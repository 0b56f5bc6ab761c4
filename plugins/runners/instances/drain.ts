import type { Clock, Logger } from '../../../kernel/index.js'
import { reasonOf } from '../process/errors.js'

/** A runner of this node whose instance is being drained; `until` is its deadline in wall ms. */
export interface Draining { instanceId: string, runnerId: string, until: number }

/** What is there at one moment. */
interface DrainMoment {
  draining: readonly Draining[]
  outstanding (runnerId: string): number
  /** How long a runner must have had no task, ms: one that was routed before the drain may still arrive. */
  quietMs: number
  /** Wall ms, for `until`. */
  now: number
  /** Monotonic ms, for everything else. */
  mono: number
}

/** Longest drain, ms. The deadline comes from another machine, whose clock may be wrong. */
const MAX_MS = 3_600_000

interface Runner { deadline: number, quietSince: number | null, done: boolean }

/**
 * Decides when draining runners are done: idle for long enough, or past their deadline. Pure but for memory.
 */
export class Drains {
  readonly #runners = new Map<string, Runner>()

  /** Returns the draining runners that are done at this moment. A runner that is done stays done. */
  look (moment: DrainMoment): Draining[] {
    const ids = new Set(moment.draining.map(({ runnerId }) => runnerId))
    for (const runnerId of this.#runners.keys()) if (!ids.has(runnerId)) this.#runners.delete(runnerId)
    return moment.draining.filter((one) => this.#isDone(one, moment))
  }

  /** True for a runner that is done and must be stopped. */
  done (runnerId: string): boolean { return this.#runners.get(runnerId)?.done === true }

  #isDone ({ runnerId, until }: Draining, { outstanding, quietMs, now, mono }: DrainMoment): boolean {
    const known = this.#runners.get(runnerId) ?? { deadline: Infinity, quietSince: null, done: false }
    // A jump of the wall clock may shorten the drain, never prolong it.
    const left = Math.min(Math.max(until - now || 0, 0), MAX_MS)
    const deadline = Math.min(known.deadline, mono + left)
    const quietSince = outstanding(runnerId) > 0 ? null : known.quietSince ?? mono
    const done = known.done || mono >= deadline || (quietSince !== null && mono - quietSince >= quietMs)
    this.#runners.set(runnerId, { deadline, quietSince, done })
    return done
  }
}

interface DrainerParts {
  clock: Clock
  log: Logger
  /** The runners of this node whose instances are being drained. */
  draining (): Draining[]
  outstanding (runnerId: string): number
  quietMs (): number
  /** Stops the runners that are done; resolves when their processes have ended. */
  reconcile (): Promise<void>
  /** Has the master remove the instance. */
  remove (instanceId: string): Promise<unknown>
}

/** Stops draining runners of this node when they are done, and has their instances removed. */
interface Drainer {
  /** Call it when instances have changed; while something drains it also runs on a timer. */
  look (): void
  /** Call it when a task has ended. */
  taskEnded (): void
  /** True for a runner that must not run any more although its instance is still in the document. */
  done (runnerId: string): boolean
  close (): void
}

/** How often draining runners are checked, and the master asked again, ms. */
export const DRAIN_LOOK_MS = 250

export function createDrainer (parts: DrainerParts): Drainer {
  const { clock, outstanding } = parts
  const drains = new Drains()
  const ending = new Set<string>()
  const refused = new Set<string>()
  let cancel: (() => void) | null = null
  const end = async ({ instanceId, runnerId }: Draining): Promise<void> => {
    ending.add(instanceId)
    try {
      await parts.reconcile()
      await parts.remove(instanceId)
    } catch (error) {
      const told = refused.has(instanceId)
      refused.add(instanceId)
      if (!told) tell(parts.log, { instanceId, runnerId, error: reasonOf(error) })
    } finally {
      ending.delete(instanceId)
    }
  }
  const look = (): void => {
    const draining = parts.draining()
    const quietMs = draining.length > 0 ? parts.quietMs() : 0
    const moment = { draining, outstanding, quietMs, now: clock.now(), mono: clock.mono() }
    for (const one of drains.look(moment)) if (!ending.has(one.instanceId)) void end(one)
    if (draining.length > 0) cancel ??= clock.every(DRAIN_LOOK_MS, look)
    else {
      cancel?.()
      cancel = null
      refused.clear()
    }
  }
  return {
    look,
    taskEnded () { if (cancel !== null) look() },
    done: (runnerId) => drains.done(runnerId),
    close () { cancel?.() }
  }
}

function tell (log: Logger, fields: Record<string, unknown>): void {
  log.warn(fields, 'a drained instance could not be removed; the master is asked again')
}
