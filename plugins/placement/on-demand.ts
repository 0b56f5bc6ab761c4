import { delay, kernelError, SvcError } from '../../kernel/index.js'
import type { Desk } from './desk.js'
import { intentOfAsk, planAndEnter } from './entering.js'
import type { For } from './entering.js'
import type { Ask } from './planning.js'
import { failedAttempts, instancesOf } from './progress.js'
import { bodyOf } from '../runners/service.js'
import type { PlacementIntent, RouteQuery } from '../runners/service.js'
import { untilReady, WATCH_MS } from './waiting.js'

/** Longest wait of one request for a model that is being placed for it, seconds. */
export const WAIT_SECONDS = 120
/** So long after a model was unloaded the readings of a node may still show its memory in use, ms. */
export const STALE_MS = 3000

export interface OnDemandParts {
  desk: Desk
  /** What was placed by a request is unloaded after so long without another one, seconds. */
  ttlSeconds: number
}

/**
 * Places models when a request names them; to be given to `Instances.onMissing`. A request waits until the
 * model is ready; those that name the same one share a placement, and one that goes away does not end it.
 * A model that nobody knows, or that an operator stopped, is not placed: false.
 */
export function createOnDemand (parts: OnDemandParts): (query: RouteQuery) => Promise<boolean> {
  const { desk } = parts
  const placing = new Map<string, Promise<string>>()
  const placed = (query: RouteQuery): Promise<string> => {
    const { modelId } = query
    const under = placing.get(modelId) ?? place(parts, query).finally(() => { placing.delete(modelId) })
    placing.set(modelId, under)
    return under
  }
  return async (query) => {
    const { modelId } = query
    if (desk.planning.known(modelId) === undefined || desk.standing.isStopped(modelId)) return false
    const signal = query.signal ?? new AbortController().signal
    const instanceId = await unlessOver(placed(query), modelId, signal)
    await unlessOver(ready(desk, instanceId, signal), modelId, signal)
    return true
  }
}

/** The instance that is there or waits already, else a new one. Throws the typed reasons of the planner. */
async function place (
  { desk, ttlSeconds }: OnDemandParts, { modelId, caller }: RouteQuery
): Promise<string> {
  const state = await desk.readState()
  const waits = Object.entries(state.waitingInstances ?? {}).find(([, entry]) => entry.modelId === modelId)
  const there = instancesOf(state, modelId)[0] ?? waits?.[0]
  if (there !== undefined) return there
  const ask = {
    modelId, sharding: 'Pipeline', instanceMeta: 'Ring', minNodes: 1, excluded: [], force: false
  } as const
  // The others that share it must not lose it with the request that came first.
  const { signal } = new AbortController()
  const intent = intentOfAsk(desk, ask, 'on_demand', ttlSeconds)
  return await enterWhenFree(desk, ask, intent, { caller, signal })
}

/** Too little memory is no refusal while models are being unloaded: they give theirs back in a moment. */
async function enterWhenFree (
  desk: Desk, ask: Ask, intent: PlacementIntent, whom: For
): Promise<string> {
  const { clock, readState } = desk
  const end = clock.mono() + WAIT_SECONDS * 1000
  for (let until = 0; ;) {
    const { instances } = await readState()
    const unloading = Object.values(instances).some((one) => bodyOf(one).drainUntil !== undefined)
    if (unloading) until = Math.min(end, clock.mono() + STALE_MS)
    try {
      return (await planAndEnter(desk, ask, intent, whom)).entered.instanceId
    } catch (error) {
      const tooLittle = error instanceof SvcError && error.reason === 'insufficient_memory'
      if (!tooLittle || clock.mono() >= until) throw error
    }
    await delay(clock, WATCH_MS, whom.signal)
  }
}

async function ready (desk: Desk, instanceId: string, signal: AbortSignal): Promise<void> {
  const { clock, recentState } = desk
  const attempts = failedAttempts(await recentState())
  try {
    await untilReady({ clock, readState: recentState, instanceId, attempts, seconds: WAIT_SECONDS, signal })
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
  // One that ends after the other is nobody's to hear.
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
