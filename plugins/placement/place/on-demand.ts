import { delay, kernelError, raceAbort, SvcError } from '../../../kernel/index.js'
import { makeRoom, placeWithRoom } from './commit.js'
import type { Planning } from './planning.js'
import { isLater } from '../keeper/placing.js'
import { untilReady, WATCH_MS } from '../progress/follow.js'
import { failedAttempts, instancesOf, type Progress } from '../progress/progress.js'
import type { ModelWait, RouteQuery } from '../../runners/service.js'

/** Milliseconds between two reports to a request that waits. */
const TELL_MS = 2000

const QUEUED: ModelWait = { percent: null, expectedSeconds: null }
/** The model's instance was lost or unloaded before the request got it, or another request's wait is over. */
const AGAIN = ['instance_lost', 'not_ready']

/**
 * Creates the function for `Instances.onMissing`, which places the requested model and waits until it is
 * ready. Requests for the same model share one placement, which survives an aborted request. Resolves to
 * false for an unknown or stopped model.
 */
export function createOnDemand (planning: Planning): (query: RouteQuery) => Promise<boolean> {
  const { clock, config } = planning.ctx
  const placing = new Map<string, Promise<string>>()
  const loadSeconds = new Map<string, number>()
  const planned = new Set<string>()
  const waiting = new Set<RouteQuery>()
  /** One plan for all requests that wait for the model. */
  const planOnce = (progress: Progress & { kind: 'waiting' }): void => {
    const { modelId } = progress.entry
    if (planned.has(modelId)) return
    planned.add(modelId)
    clock.after(WATCH_MS, () => { planned.delete(modelId) })
    forEntry(planning, progress)
  }
  const placed = async (query: RouteQuery, until: number): Promise<string> => {
    const { modelId } = query
    const isWanted = (): boolean => [...waiting].some((one) => one.modelId === modelId)
    const under = placing.get(modelId) ??
      place(planning, query, until, isWanted).finally(() => { placing.delete(modelId) })
    placing.set(modelId, under)
    return await under
  }
  const served = async (query: RouteQuery, signal: AbortSignal, tell: Tell): Promise<boolean> => {
    const { modelId } = query
    for (const until = clock.mono() + config.wait_seconds * 1000; ;) {
      if (planning.isStopped(modelId)) return false
      try {
        const instanceId = await placed(query, until)
        const since = clock.mono()
        const spent = (): number => (clock.mono() - since) / 1000
        await untilReady(planning, {
          instanceId, attempts: failedAttempts(planning.facts.recent()), signal,
          seconds: Math.ceil((until - since) / 1000),
          onLook (progress) {
            tell(waitOf(progress, spent(), loadSeconds.get(modelId)))
            if (progress.kind === 'waiting') planOnce(progress)
          }
        })
        // A request that found the model nearly loaded says nothing about the time.
        if (spent() > 1) loadSeconds.set(modelId, spent())
        return true
      } catch (error) {
        if (error instanceof SvcError && error.reason === 'not_ready_yet') throw loading(error.message)
        const again = isLater(error) || (error instanceof SvcError && AGAIN.includes(error.reason))
        if (!again || clock.mono() >= until) throw error
      }
      tell(QUEUED)
      await delay(clock, WATCH_MS, signal)
    }
  }
  return async (query) => {
    if (!planning.onDemand(query.modelId) || planning.known(query.modelId) === undefined) return false
    let wait = QUEUED
    const stop = clock.every(TELL_MS, () => { query.onWait?.(wait) })
    const signal = query.signal ?? new AbortController().signal
    waiting.add(query)
    try {
      return await unlessOver(served(query, signal, (now) => { wait = now }), query.modelId, signal)
    } finally {
      waiting.delete(query)
      stop()
    }
  }
}

type Tell = (wait: ModelWait) => void

/** The id of the model's instance, which may exist already, be waiting, or be placed by this call. */
async function place (
  planning: Planning, { modelId, caller, ttlSeconds }: RouteQuery, until: number, isWanted: () => boolean
): Promise<string> {
  const { ctx: { config }, facts } = planning
  const now = facts.now()
  const waits = Object.entries(now.waitingInstances).find(([, entry]) => entry.modelId === modelId)
  const there = instancesOf(now, modelId)[0] ?? waits?.[0]
  if (there !== undefined) return there
  const wish = {
    modelId, sharding: 'Pipeline', minNodes: 1, excluded: [], force: false, origin: 'on_demand',
    ttlSeconds: ttlSeconds === undefined ? config.on_demand_ttl_seconds : ttlSeconds
  } as const
  // Do not use the first request's signal, because other requests share the placement.
  const { signal } = new AbortController()
  return (await placeWithRoom(planning, wish, { caller, signal, isWanted }, until)).entered.instanceId
}

/** Makes room for an instance that lost its node and fits nowhere else. */
function forEntry (
  planning: Planning, { entry: { modelId, intent, reason } }: Progress & { kind: 'waiting' }
): void {
  if (reason !== 'insufficient_memory') return
  try {
    planning.look({ ...intent, modelId, force: false }, planning.facts.recent())
  } catch (error) {
    makeRoom(planning, modelId, error)
  }
}

/** The progress as shown to the request; `usual` is how long the last load took, seconds. */
function waitOf (progress: Progress, spent: number, usual: number | undefined): ModelWait {
  if (progress.kind !== 'starting') return QUEUED
  const parts = progress.ranks.map(({ detail: { layersLoaded, totalLayers } }) =>
    Number(layersLoaded) / Number(totalLayers) || 0)
  const part = Math.min(1, ...parts)
  const left = part > 0 ? spent * (1 - part) / part : usual === undefined ? null : usual - spent
  const expectedSeconds = left === null ? null : Math.max(1, Math.ceil(left))
  return { percent: Math.floor(part * 100), expectedSeconds }
}

/** Settles with `work`, or rejects when the request is aborted; reports a timeout as `not_ready`. */
async function unlessOver<T> (work: Promise<T>, modelId: string, signal: AbortSignal): Promise<T> {
  try {
    return await raceAbort(work, signal)
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
