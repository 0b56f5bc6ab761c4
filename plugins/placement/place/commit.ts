import { randomUUID } from 'node:crypto'
import { delay, kernelError, SvcError, type Caller } from '../../../kernel/index.js'
import { errors } from '../errors.js'
import { idOf, instanceOf, modelOf, nodesOf } from './instance.js'
import { POLL_MS, type PlanningInput, type Outcome, type Planning } from './planning.js'
import { bodyOf, runnerErrors, type Instance, type PlacementIntent } from '../../runners/service.js'

const TRIES = 3
/** Milliseconds for which memory readings may be older than an unloading, also those of the master. */
const STALE_MS = 5000

/** `isWanted`: false once the last waiting request is gone; then no instance is unloaded for it. */
export interface Requester { caller: Caller, signal: AbortSignal, isWanted?: () => boolean }

/** The master's reply; `isNew` is false if these nodes already run the model. */
export interface CommittedInstance { commandId: string, instanceId: string, isNew: boolean }

export interface PlacementRequest extends PlanningInput, Pick<PlacementIntent, 'origin' | 'ttlSeconds'> {}

/**
 * Plans a placement and places it through the master. If the master refuses, plans again, up to TRIES times.
 * Throws the planner's refusals.
 */
export async function planAndEnter (
  planning: Planning, request: PlacementRequest, { caller, signal }: Requester
): Promise<{ outcome: Outcome, entered: CommittedInstance }> {
  const { clock, deps: { cluster } } = planning.ctx
  const {
    origin, sharding, minNodes, excluded, ttlSeconds, contextLength, slots, chatTemplate, force
  } = request
  // Node ids change at a restart, but install ids do not.
  const installIds = new Set(excluded.flatMap((ref) => cluster.resolve(ref)?.installId ?? []))
  for (let tries = 1; ; tries++) {
    const outcome = await planning.plan(request, signal)
    const { plan, card, facts: { nodes }, instanceMeta, engine } = outcome
    const intent: PlacementIntent = {
      origin, sharding, instanceMeta, minNodes, excluded: [...installIds], failedOn: [], ttlSeconds,
      replaces: null, ...contextLength === undefined ? {} : { contextLength },
      ...slots === undefined ? {} : { slots }, ...chatTemplate === undefined ? {} : { chatTemplate },
      ...engine === undefined ? {} : { engine }
    }
    const instance = instanceOf(plan, card, nodes, randomUUID, intent)
    try {
      return { outcome, entered: await commitInstance(planning, instance, caller, force) }
    } catch (error) {
      if (!refused(error) || tries === TRIES) throw error
      await delay(clock, POLL_MS, signal)
    }
  }
}

/**
 * Asks for the unloading of the idle instances that a refusal for lack of memory names. False if the error is
 * another one, or if waiting cannot help.
 */
export function makeRoom ({ ctx: { deps } }: Planning, modelId: string, error: unknown): boolean {
  if (!(error instanceof SvcError) || error.reason !== 'insufficient_memory') return false
  const { unloads } = error.details as { unloads?: { instanceId: string }[] }
  for (const { instanceId } of unloads ?? []) deps.instances.evict(instanceId, modelId)
  return unloads !== undefined
}

/**
 * Like `planAndEnter`, but makes room by unloading idle models, and waits until `until` (monotonic ms) for
 * those that are in use or end anyway. Throws `not_ready` then.
 */
export async function placeWithRoom (
  planning: Planning, request: PlacementRequest, requester: Requester, until: number
): ReturnType<typeof planAndEnter> {
  const { clock } = planning.ctx
  for (let [staleUntil, restUntil] = [0, 0]; ;) {
    const leaves = Object.values(planning.facts.now().instances)
      .some((one) => bodyOf(one).drainUntil !== undefined)
    if (leaves) staleUntil = clock.mono() + STALE_MS
    try {
      return await planAndEnter(planning, request, requester)
    } catch (error) {
      const isShort = error instanceof SvcError && error.reason === 'insufficient_memory'
      const unloads = isShort ? error.details['unloads'] as readonly object[] | undefined : undefined
      const now = clock.mono()
      // Just after an unloading, neither give up nor unload more.
      if (!isShort || now >= staleUntil || (leaves && unloads !== undefined && now >= restUntil)) {
        if (unloads !== undefined && (requester.signal.aborted || requester.isWanted?.() === false)) {
          throw kernelError('not_ready', `No request waits for ${request.modelId} any more.`)
        }
        if (!makeRoom(planning, request.modelId, error)) throw error
        if (unloads!.length > 0) {
          staleUntil = now + STALE_MS
          restUntil = staleUntil + STALE_MS
        }
      }
      if (now >= until) {
        throw kernelError('not_ready', `${request.modelId} waits for memory: other models are in use.`)
      }
    }
    await delay(clock, POLL_MS, requester.signal)
  }
}

function refused (error: unknown): boolean {
  return error instanceof SvcError && Object.hasOwn({ ...errors, ...runnerErrors }, error.reason)
}

/** Places the instance through the master. If the model is recorded as stopped, removes that record. */
export async function commitInstance (
  planning: Planning, instance: Instance, caller: Caller, force: boolean
): Promise<CommittedInstance> {
  const { ctx } = planning
  const commandId = randomUUID()
  const modelId = modelOf(instance)
  const instanceId = await ctx.deps.instances.place(instance, { commandId, force })
  const isNew = instanceId === idOf(instance)
  if (force && isNew) {
    const payload = { instanceId, modelId, nodeIds: nodesOf(instance), by: caller.id }
    ctx.log.warn(payload, 'an instance was placed without a memory check')
    ctx.emit('PlacementForced', payload)
  }
  // Also unstop an automatically placed model: another node's stop may not have reached this node yet.
  if (planning.isStopped(modelId) || planning.returns(modelId)) await ctx.command('unstop', { modelId })
  return { commandId, instanceId, isNew }
}
