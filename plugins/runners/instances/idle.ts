import type { Clock, Logger } from '../../../kernel/index.js'
import { reasonOf } from '../process/errors.js'

/** A runner of this node whose instance is unloaded when nobody uses it for `ttlSeconds`. */
export interface Unloadable {
  instanceId: string
  modelId: string
  runnerId: string
  ttlSeconds: number
  /** It accepts tasks. */
  ready: boolean
  /** Tasks it has now. */
  outstanding: number
}

/** Since when each runner has been unused. Times are monotonic ms, passed in. */
export class IdleTimes {
  readonly #usedAt = new Map<string, number>()

  /** A task of the runner ended. */
  used (runnerId: string, mono: number): void {
    if (this.#usedAt.has(runnerId)) this.#usedAt.set(runnerId, mono)
  }

  /** Returns the runners whose time to live has passed without a task since they were ready. */
  look (all: readonly Unloadable[], mono: number): { runner: Unloadable, idleSeconds: number }[] {
    const ready = new Set(all.filter((one) => one.ready).map(({ runnerId }) => runnerId))
    for (const runnerId of this.#usedAt.keys()) if (!ready.has(runnerId)) this.#usedAt.delete(runnerId)
    return all.flatMap((runner) => {
      if (!runner.ready) return []
      const usedAt = runner.outstanding > 0 ? mono : this.#usedAt.get(runner.runnerId) ?? mono
      this.#usedAt.set(runner.runnerId, usedAt)
      const idleSeconds = (mono - usedAt) / 1000
      return idleSeconds >= runner.ttlSeconds ? [{ runner, idleSeconds }] : []
    })
  }
}

export interface UnloaderParts {
  clock: Clock
  log: Logger
  /** What this node may unload. */
  unloadable (): Unloadable[]
  /** Has the master drain the instance, so that a request that has just arrived is still served. */
  drain (instanceId: string): Promise<unknown>
  unloaded (event: { instanceId: string, modelId: string, idleSeconds: number }): void
}

/** Unloads instances that are unused for their time to live. */
interface Unloader {
  /** A task of the runner ended. */
  used (runnerId: string): void
  close (): void
}

/** How often runners are checked, ms. */
const IDLE_LOOK_MS = 1000

export function createUnloader (parts: UnloaderParts): Unloader {
  const { clock, log } = parts
  const times = new IdleTimes()
  const asked = new Set<string>()
  const unload = async ({ instanceId, modelId }: Unloadable, idleSeconds: number): Promise<void> => {
    asked.add(instanceId)
    try {
      await parts.drain(instanceId)
      parts.unloaded({ instanceId, modelId, idleSeconds: Math.round(idleSeconds) })
    } catch (error) {
      asked.delete(instanceId)
      log.debug({ instanceId, modelId, error: reasonOf(error) }, 'an idle instance could not be unloaded yet')
    }
  }
  const cancel = clock.every(IDLE_LOOK_MS, () => {
    const all = parts.unloadable()
    const there = new Set(all.map(({ instanceId }) => instanceId))
    for (const instanceId of asked) if (!there.has(instanceId)) asked.delete(instanceId)
    for (const { runner, idleSeconds } of times.look(all, clock.mono())) {
      if (!asked.has(runner.instanceId)) void unload(runner, idleSeconds)
    }
  })
  return { used: (runnerId) => { times.used(runnerId, clock.mono()) }, close: cancel }
}
