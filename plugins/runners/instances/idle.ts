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

/** Since when nobody has used the runners. Times are monotonic ms and an argument. */
export class IdleTimes {
  readonly #usedAt = new Map<string, number>()

  /** A task of the runner ended. */
  used (runnerId: string, mono: number): void {
    if (this.#usedAt.has(runnerId)) this.#usedAt.set(runnerId, mono)
  }

  /** Those that have been idle for as long as they may, counted from ready on; each with how long that is. */
  look (all: readonly Unloadable[], mono: number): { over: Unloadable, idleSeconds: number }[] {
    const ready = new Set(all.filter((one) => one.ready).map(({ runnerId }) => runnerId))
    for (const runnerId of this.#usedAt.keys()) if (!ready.has(runnerId)) this.#usedAt.delete(runnerId)
    return all.flatMap((over) => {
      if (!over.ready) return []
      const usedAt = over.outstanding > 0 ? mono : this.#usedAt.get(over.runnerId) ?? mono
      this.#usedAt.set(over.runnerId, usedAt)
      const idleSeconds = (mono - usedAt) / 1000
      return idleSeconds >= over.ttlSeconds ? [{ over, idleSeconds }] : []
    })
  }
}

export interface UnloaderParts {
  clock: Clock
  log: Logger
  /** What this node may unload. */
  unloadable (): Unloadable[]
  /** Has the master drain the instance: a request that came just now is still served. */
  drain (instanceId: string): Promise<unknown>
  unloaded (event: { instanceId: string, modelId: string, idleSeconds: number }): void
}

/** Unloads what nobody uses. */
export interface Unloader {
  /** A task of the runner ended. */
  used (runnerId: string): void
  close (): void
}

/** How often it is looked who is idle, ms. */
export const IDLE_LOOK_MS = 1000

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
    for (const { over, idleSeconds } of times.look(all, clock.mono())) {
      if (!asked.has(over.instanceId)) void unload(over, idleSeconds)
    }
  })
  return { used: (runnerId) => { times.used(runnerId, clock.mono()) }, close: cancel }
}
