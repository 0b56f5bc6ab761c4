import { modelOf } from '../place/instance.js'
import { bodyOf } from '../../runners/service.js'
import type { Instance } from '../../runners/service.js'
import type { Facts } from '../facts.js'
import { ranksOf } from '../place/view.js'
import { SERVING } from '../progress/progress.js'

/** Nothing of an instance may stand still for longer than this before it serves, s. */
export const STALL_SECONDS = 150
/** A large model is given twice the time that it takes at this rate, bytes per second. */
export const SLOWEST_BYTES_PER_SECOND = 20_000_000
/** A warmup shows no progress and may take so long, s. */
export const WARMUP_SECONDS = 1800

/** An instance of which nothing has moved for too long. */
export interface Stall { instanceId: string, modelId: string, nodeIds: string[], seconds: number }

/** Watches whether instances get on until they serve. Time is an argument. */
export class Stalls {
  readonly #seen = new Map<string, { what: string, since: number }>()

  /** Those that stand still. Times in ms of a monotonic clock. */
  look (state: Pick<Facts, 'instances' | 'runners' | 'downloads'>, now: number): Stall[] {
    const stalled: Stall[] = []
    const instances = Object.values(state.instances)
    const there = new Set(instances.map((one) => bodyOf(one).instanceId))
    for (const id of this.#seen.keys()) if (!there.has(id)) this.#seen.delete(id)
    for (const instance of instances) {
      const { instanceId } = bodyOf(instance)
      const ranks = ranksOf(instance).map(({ nodeId, runnerId, shard }) =>
        ({ nodeId, status: state.runners[runnerId], bytes: shard.modelCard.storageSize.inBytes }))
      const late = ranks.filter(({ status }) => !SERVING.has(kindOf(status)))
      const what = JSON.stringify([ranks, nodesDownloads(state, instance)])
      const seen = this.#seen.get(instanceId)
      if (seen?.what !== what) this.#seen.set(instanceId, { what, since: now })
      const seconds = (now - (seen?.what === what ? seen.since : now)) / 1000
      const limit = late.some(({ status }) => kindOf(status) === 'RunnerWarmingUp')
        ? WARMUP_SECONDS
        : Math.max(STALL_SECONDS, 2 * (ranks[0]?.bytes ?? 0) / SLOWEST_BYTES_PER_SECOND)
      if (late.length === 0 || seconds < limit) continue
      stalled.push({
        instanceId, modelId: modelOf(instance), nodeIds: late.map(({ nodeId }) => nodeId), seconds
      })
    }
    return stalled
  }
}

const kindOf = (status: Record<string, unknown> | undefined): string =>
  Object.keys(status ?? {})[0] ?? 'RunnerIdle'

/** Transfers of the model to the nodes of the instance; one whose turn has not come waits for all there. */
function nodesDownloads ({ downloads }: Pick<Facts, 'downloads'>, instance: Instance): unknown {
  const modelId = modelOf(instance)
  return ranksOf(instance).map(({ nodeId }) => {
    const all = downloads[nodeId] ?? []
    const own = all.filter((one) => Object.values(one)[0]?.modelId === modelId)
    return own.some((one) => 'DownloadPending' in one) ? all : own
  })
}
