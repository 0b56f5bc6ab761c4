import { delay, kernelError, SvcError } from '../../../kernel/index.js'
import { planAndEnter } from './enter.js'
import type { For, PlacementDeps, Wish } from './enter.js'
import { untilReady, WATCH_MS } from '../progress/follow.js'
import { failedAttempts, instancesOf } from '../progress/progress.js'
import { bodyOf } from '../../runners/service.js'
import type { RouteQuery } from '../../runners/service.js'

/** Longest wait of one request for a model that is being placed for it, seconds. */
export const WAIT_SECONDS = 120
/** So long after a model was unloaded the readings of a node may still show its memory in use, ms. */
export const STALE_MS = 3000

export interface OnDemandParts {
  deps: PlacementDeps
  /** What was placed by a request is unloaded after so long without another one, seconds. */
  ttlSeconds: number
}

/**
 * Places models when a request names them; to be given to `Instances.onMissing`. A request waits until the
 * model is ready; those that name the same one share a placement, and one that goes away does not end it.
 * A model that nobody knows, or that an operator stopped, is not placed: false.
 */
export function createOnDemand (parts: OnDemandParts): (query: RouteQuery) => Promise<boolean> {
  const { deps } = parts
  const placing = new Map<string, Promise<string>>()
  const placed = (query: RouteQuery): Promise<string> => {
    const { modelId } = query
    const under = placing.get(modelId) ?? place(parts, query).finally(() => { placing.delete(modelId) })
    placing.set(modelId, under)
    return under
  }
  return async (query) => {
    const { modelId } = query
    if (deps.planning.known(modelId) === undefined || deps.waitList.isStopped(modelId)) return false
    const signal = query.signal ?? new AbortController().signal
    const instanceId = await unlessOver(placed(query), modelId, signal)
    await unlessOver(ready(deps, instanceId, signal), modelId, signal)
    return true
  }
}

/** The instance that is there or waits already, else a new one. Throws the typed reasons of the planner. */
async function place (
  { deps, ttlSeconds }: OnDemandParts, { modelId, caller }: RouteQuery
): Promise<string> {
  const facts = deps.facts.now()
  const waits = Object.entries(facts.waitingInstances).find(([, entry]) => entry.modelId === modelId)
  const there = instancesOf(facts, modelId)[0] ?? waits?.[0]
  if (there !== undefined) return there
  // The others that share it must not lose it with the request that came first.
  const { signal } = new AbortController()
  return await enterWhenFree(deps, {
    modelId, sharding: 'Pipeline', minNodes: 1, excluded: [], force: false, origin: 'on_demand', ttlSeconds
  }, { caller, signal })
}

/** Too little memory is no refusal while models are being unloaded: they give theirs back in a moment. */
async function enterWhenFree (deps: PlacementDeps, wish: Wish, whom: For): Promise<string> {
  const { clock, facts } = deps
  const end = clock.mono() + WAIT_SECONDS * 1000
  for (let until = 0; ;) {
    const unloading = Object.values(facts.now().instances).some((one) => bodyOf(one).drainUntil !== undefined)
    if (unloading) until = Math.min(end, clock.mono() + STALE_MS)
    try {
      return (await planAndEnter(deps, wish, whom)).entered.instanceId
    } catch (error) {
      const tooLittle = error instanceof SvcError && error.reason === 'insufficient_memory'
      if (!tooLittle || clock.mono() >= until) throw error
    }
    await delay(clock, WATCH_MS, whom.signal)
  }
}

async function ready (deps: PlacementDeps, instanceId: string, signal: AbortSignal): Promise<void> {
  const { clock, facts } = deps
  const attempts = failedAttempts(facts.recent())
  try {
    await untilReady({ clock, facts, instanceId, attempts, seconds: WAIT_SECONDS, signal })
  } catch (error) {
    throw error instanceof SvcError && error.reason === 'not_ready_yet' ? loading(error.message) : error
  }
}

/** What comes first: the outcome, or the end of the request; its deadline is told as "not ready yet". */
async function unlessOver<T> (work: Promise<T>, modelId: string, signal: AbortSignal): Promise<T> {
  let stop = (): void => {}
  const over = new Promise<never>((_resolve, reject) => {
    const end = (): void => { reject(endOf(modelId, signal.reason)) }
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    stop = () => { signal.removeEventListener('abort', end) }
  })
  // Only the first end counts: the other must not become an unhandled rejection.
  work.catch(() => {})
  over.catch(() => {})
  try {
    return await Promise.race([work, over])
  } finally {
    stop()
  }
}

function endOf (modelId: string, reason: unknown): Error {
  if (reason instanceof SvcError && reason.reason !== 'timeout') return reason
  if (reason instanceof SvcError) return loading(`${modelId} is placed for this request and not ready yet.`)
  return kernelError('cancelled')
}

/** 503 with a Retry-After: the next try finds it further. */
const loading = (message: string): SvcError => kernelError('not_ready', message)
