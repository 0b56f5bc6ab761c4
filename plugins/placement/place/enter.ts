import { randomUUID } from 'node:crypto'
import { delay, SvcError } from '../../../kernel/index.js'
import type { Caller } from '../../../kernel/index.js'
import { errors } from '../errors.js'
import { idOf, instanceOf, modelOf, nodesOf } from './instance.js'
import { LOOK_MS } from './planning.js'
import type { Ask, Outcome, Planning } from './planning.js'
import { runnerErrors } from '../../runners/service.js'
import type { Instance, PlacementIntent } from '../../runners/service.js'

/** Plans made for one request when the master, which has newer facts, refuses. */
const TRIES = 3

/** For whom something is placed. */
export interface For { caller: Caller, signal: AbortSignal }

/** What the master made of an instance; `isNew` is false where one was there already. */
export interface Entered { commandId: string, instanceId: string, isNew: boolean }

/** What is asked besides the plan; an intent says it when the model is placed anew. */
export interface Wish extends Ask, Pick<PlacementIntent, 'origin' | 'ttlSeconds'> {}

/**
 * Plans a placement and has the master enter it; a refusal of the master's makes a new plan, three at most.
 * Throws the typed reasons of the planner.
 */
export async function planAndEnter (
  planning: Planning, wish: Wish, { caller, signal }: For
): Promise<{ outcome: Outcome, entered: Entered }> {
  const { clock, deps: { cluster } } = planning.ctx
  const { origin, sharding, minNodes, excluded, ttlSeconds, force } = wish
  // Excluded nodes by what they keep over a restart.
  const installIds = new Set(excluded.flatMap((ref) => cluster.resolve(ref)?.installId ?? []))
  for (let tries = 1; ; tries++) {
    const outcome = await planning.plan(wish, signal)
    const { plan, card, facts: { nodes }, instanceMeta } = outcome
    const intent: PlacementIntent = {
      origin, sharding, instanceMeta, minNodes, excluded: [...installIds], failedOn: [], ttlSeconds,
      replaces: null
    }
    const instance = instanceOf(plan, card, nodes, randomUUID, intent)
    try {
      return { outcome, entered: await enter(planning, instance, caller, force) }
    } catch (error) {
      if (!refused(error) || tries === TRIES) throw error
      await delay(clock, LOOK_MS, signal)
    }
  }
}

/** Refused as it stands, which another plan may not be. */
function refused (error: unknown): boolean {
  return error instanceof SvcError && Object.hasOwn({ ...errors, ...runnerErrors }, error.reason)
}

/** Has the master enter the instance; somebody wants the model, so it counts as stopped no more. */
export async function enter (
  planning: Planning, instance: Instance, caller: Caller, force: boolean
): Promise<Entered> {
  const { ctx } = planning
  const commandId = randomUUID()
  const modelId = modelOf(instance)
  const instanceId = await ctx.deps.instances.place(instance, { commandId, force })
  const isNew = instanceId === idOf(instance)
  if (force && isNew) {
    const payload = { instanceId, modelId, nodeIds: nodesOf(instance), by: caller.id }
    ctx.log.warn(payload, 'an instance was placed without the check of memory')
    ctx.emit('PlacementForced', payload)
  }
  // What another node has just stopped may not be known here yet.
  if (planning.isStopped(modelId) || planning.returns(modelId)) await ctx.command('unstop', { modelId })
  return { commandId, instanceId, isNew }
}
