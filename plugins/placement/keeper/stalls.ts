import { idOf, modelOf, ranksOf } from '../place/instance.js'
import type { Instance } from '../../runners/service.js'
import type { Facts } from '../facts.js'
import { runnerKind, SERVING } from '../progress/progress.js'

/** Seconds without progress after which a starting instance counts as stalled. */
export const STALL_SECONDS = 150
/** Bytes per second. A large model may take twice its loading time at this rate, but no longer. */
export const SLOWEST_BYTES_PER_SECOND = 20_000_000
/** Limit in seconds on a warm-up, which reports no progress. */
export const WARMUP_SECONDS = 1800

export interface Stall { instanceId: string, modelId: string, nodeIds: string[], seconds: number }

type Watched = Pick<Facts, 'instances' | 'runners' | 'downloads'>

/** Detects starting instances without progress. Callers pass the time. */
export class Stalls {
  readonly #seen = new Map<string, { what: string, since: number }>()

  look (state: Watched, now: number): Stall[] {
    const instances = Object.values(state.instances)
    const there = new Set(instances.map(idOf))
    for (const id of this.#seen.keys()) if (!there.has(id)) this.#seen.delete(id)
    return instances.flatMap((instance) => {
      const ranks = ranksOf(instance)
      const what = JSON.stringify([
        ranks.map(({ runnerId }) => state.runners[runnerId]), transfersOf(state, instance)
      ])
      const seen = this.#seen.get(idOf(instance))
      const since = seen?.what === what ? seen.since : now
      this.#seen.set(idOf(instance), { what, since })
      const late = ranks.filter(({ runnerId }) => !SERVING.has(runnerKind(state, runnerId)))
      const warms = late.some(({ runnerId }) => runnerKind(state, runnerId) === 'RunnerWarmingUp')
      const bytes = ranks[0]?.shard.modelCard.storageSize.inBytes ?? 0
      const limit = warms ? WARMUP_SECONDS : Math.max(STALL_SECONDS, 2 * bytes / SLOWEST_BYTES_PER_SECOND)
      const seconds = (now - since) / 1000
      if (late.length === 0 || seconds < limit) return []
      const nodeIds = late.map(({ nodeId }) => nodeId)
      return [{ instanceId: idOf(instance), modelId: modelOf(instance), nodeIds, seconds }]
    })
  }
}

/** The model's transfers; on a node where one of them is queued, all transfers, since it waits for those. */
function transfersOf ({ downloads }: Watched, instance: Instance): unknown {
  const modelId = modelOf(instance)
  return ranksOf(instance).map(({ nodeId }) => {
    const all = downloads[nodeId] ?? []
    const own = all.filter((one) => Object.values(one)[0]?.modelId === modelId)
    return own.some((one) => 'DownloadPending' in one) ? all : own
  })
}
