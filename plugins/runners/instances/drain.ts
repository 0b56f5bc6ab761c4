import type { Clock, Logger } from '../../../kernel/index.js'
import { reasonOf } from '../process/errors.js'

/** A runner of this node whose instance is to go; `until` in wall ms. */
export interface Draining { instanceId: string, runnerId: string, until: number }

/** What is there at one moment. */
export interface DrainMoment {
  draining: readonly Draining[]
  outstanding (runnerId: string): number
  /** For so long a runner must have had no task: those that were routed before may be on their way, ms. */
  quietMs: number
  /** Wall ms, for `until`. */
  now: number
  /** Monotonic ms, for everything else. */
  mono: number
}

/** No drain takes longer, whatever another machine's clock says, ms. */
const MAX_MS = 3_600_000

interface Runner { deadline: number, quietSince: number | null, over: boolean }

/** Which of the draining runners have had their time. It is an argument; what is over stays over. */
export class Drains {
  readonly #runners = new Map<string, Runner>()

  /** Looks at every draining runner; returns those that are over, time and again while they are there. */
  look (moment: DrainMoment): Draining[] {
    const ids = new Set(moment.draining.map(({ runnerId }) => runnerId))
    for (const runnerId of this.#runners.keys()) if (!ids.has(runnerId)) this.#runners.delete(runnerId)
    return moment.draining.filter((one) => this.#isOver(one, moment))
  }

  /** True for a runner that is not to run any more. */
  over (runnerId: string): boolean { return this.#runners.get(runnerId)?.over === true }

  #isOver ({ runnerId, until }: Draining, { outstanding, quietMs, now, mono }: DrainMoment): boolean {
    const known = this.#runners.get(runnerId) ?? { deadline: Infinity, quietSince: null, over: false }
    // A step of the wall clock may shorten it, never prolong it.
    const left = Math.min(Math.max(until - now || 0, 0), MAX_MS)
    const deadline = Math.min(known.deadline, mono + left)
    const quietSince = outstanding(runnerId) > 0 ? null : known.quietSince ?? mono
    const over = known.over || mono >= deadline || (quietSince !== null && mono - quietSince >= quietMs)
    this.#runners.set(runnerId, { deadline, quietSince, over })
    return over
  }
}

export interface DrainerParts {
  clock: Clock
  log: Logger
  /** What this node is to bring to its end. */
  draining (): Draining[]
  outstanding (runnerId: string): number
  quietMs (): number
  /** Stops the runners that are over; resolves when they are gone. */
  reconcile (): Promise<void>
  /** Has the master remove the instance. */
  remove (instanceId: string): Promise<unknown>
}

/** Brings draining runners of this node to their end. */
export interface Drainer {
  /** To be called when instances have changed; in between it looks by itself. */
  look (): void
  /** To be called when a task has ended. */
  taskEnded (): void
  /** True for a runner that is not to run any more, though its instance is still there. */
  over (runnerId: string): boolean
  close (): void
}

/** How often it is looked while something drains, and the master asked again, ms. */
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
    over: (runnerId) => drains.over(runnerId),
    close () { cancel?.() }
  }
}

function tell (log: Logger, fields: Record<string, unknown>): void {
  log.warn(fields, 'a drained instance could not be removed; the master is asked again')
}
