import { delay, kernelError, raceAbort, SvcError } from '../../../kernel/index.js'
import { planAndEnter } from './commit.js'
import type { Planning } from './planning.js'
import { untilReady, WATCH_MS } from '../progress/follow.js'
import { failedAttempts, instancesOf } from '../progress/progress.js'
import { bodyOf, type RouteQuery } from '../../runners/service.js'

/** Limit in seconds on how long a request waits for its on-demand model. */
export const WAIT_SECONDS = 120
/** Milliseconds for which memory readings may still include a model that has been unloaded. */
export const STALE_MS = 3000

/**
 * Creates the function for `Instances.onMissing`, which places the requested model and waits until it is
 * ready. Requests for the same model share one placement, which survives an aborted request. Resolves to
 * false for an unknown or stopped model.
 */
export function createOnDemand (planning: Planning): (query: RouteQuery) => Promise<boolean> {
  const placing = new Map<string, Promise<string>>()
  const placed = (query: RouteQuery): Promise<string> => {
    const { modelId } = query
    const under = placing.get(modelId) ?? place(planning, query).finally(() => { placing.delete(modelId) })
    placing.set(modelId, under)
    return under
  }
  return async (query) => {
    const { modelId } = query
    if (planning.known(modelId) === undefined || planning.isStopped(modelId)) return false
    const signal = query.signal ?? new AbortController().signal
    const served = placed(query).then(async (instanceId) => { await ready(planning, instanceId, signal) })
    await unlessOver(served, modelId, signal)
    return true
  }
}

/**
 * The id of the model's instance, which may exist already, be waiting, or be placed by this call. While other
 * instances are unloading, repeats the placement if memory is insufficient. Throws the planner's refusals.
 */
async function place (planning: Planning, { modelId, caller }: RouteQuery): Promise<string> {
  const { ctx: { clock, config }, facts } = planning
  const now = facts.now()
  const waits = Object.entries(now.waitingInstances).find(([, entry]) => entry.modelId === modelId)
  const there = instancesOf(now, modelId)[0] ?? waits?.[0]
  if (there !== undefined) return there
  const wish = {
    modelId, sharding: 'Pipeline', minNodes: 1, excluded: [], force: false, origin: 'on_demand',
    ttlSeconds: config.on_demand_ttl_seconds
  } as const
  // Do not use the first request's signal, because other requests share the placement.
  const { signal } = new AbortController()
  const end = clock.mono() + WAIT_SECONDS * 1000
  for (let until = 0; ;) {
    const unloading = Object.values(facts.now().instances).some((one) => bodyOf(one).drainUntil !== undefined)
    if (unloading) until = Math.min(end, clock.mono() + STALE_MS)
    try {
      return (await planAndEnter(planning, wish, { caller, signal })).entered.instanceId
    } catch (error) {
      const tooLittle = error instanceof SvcError && error.reason === 'insufficient_memory'
      if (!tooLittle || clock.mono() >= until) throw error
    }
    await delay(clock, WATCH_MS, signal)
  }
}

async function ready (planning: Planning, instanceId: string, signal: AbortSignal): Promise<void> {
  const attempts = failedAttempts(planning.facts.recent())
  try {
    await untilReady(planning, { instanceId, attempts, seconds: WAIT_SECONDS, signal })
  } catch (error) {
    throw error instanceof SvcError && error.reason === 'not_ready_yet' ? loading(error.message) : error
  }
}

/** Settles with `work`, or rejects when the request is aborted; reports a timeout as `not_ready`. */
async function unlessOver (work: Promise<void>, modelId: string, signal: AbortSignal): Promise<void> {
  try {
    await raceAbort(work, signal)
    return
  } catch (error) {
    if (!signal.aborted) throw error
  }
  const reason: unknown = signal.reason
  if (!(reason instanceof SvcError)) throw kernelError('cancelled')
  throw reason.reason === 'timeout'
    ? loading(`${modelId} is placed for this request but not ready yet.`)
    : reason
}

const loading = (message: string): SvcError => kernelError('not_ready', message)
