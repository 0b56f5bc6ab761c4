import { delay, SvcError } from '../../kernel/index.js'
import type { Caller } from '../../kernel/index.js'
import type { Desk } from './desk.js'
import { errors } from './errors.js'
import { instanceOf } from './instance.js'
import { LOOK_MS } from './planning.js'
import type { Ask, Outcome } from './planning.js'
import { bodyOf, runnerErrors } from '../runners/service.js'
import type { Instance, PlacementIntent } from '../runners/service.js'

/** Plans made for one request when the master, which has newer facts, refuses. */
const TRIES = 3

/** For whom something is placed. */
export interface For { caller: Caller, signal: AbortSignal }

/** What the master made of an instance; `isNew` is false where one was there already. */
export interface Entered { commandId: string, instanceId: string, isNew: boolean }

/**
 * Plans a placement and has the master enter it; a refusal of the master's makes a new plan, three at most.
 * Throws the typed reasons of the planner.
 */
export async function planAndEnter (
  desk: Desk, ask: Ask, intent: PlacementIntent, whom: For
): Promise<{ outcome: Outcome, entered: Entered }> {
  for (let tries = 1; ; tries++) {
    const outcome = await desk.planning.plan(ask, whom.signal)
    const instance = instanceOf(outcome.plan, outcome.card, outcome.state, desk.newId, intent)
    try {
      return { outcome, entered: await enter(desk, instance, whom.caller, ask.force) }
    } catch (error) {
      if (!refused(error) || tries === TRIES) throw error
      await delay(desk.clock, LOOK_MS, whom.signal)
    }
  }
}

/** Refused as it stands, which another plan may not be. */
function refused (error: unknown): boolean {
  return error instanceof SvcError &&
    (Object.hasOwn(errors, error.reason) || Object.hasOwn(runnerErrors, error.reason))
}

/** Has the master enter the instance; somebody wants the model, so it counts as stopped no more. */
export async function enter (
  desk: Desk, instance: Instance, caller: Caller, force: boolean
): Promise<Entered> {
  const commandId = desk.newId()
  const instanceId = await desk.instances.place(instance, { commandId, force })
  const isNew = instanceId === bodyOf(instance).instanceId
  const { modelId, nodeToRunner } = bodyOf(instance).shardAssignments
  if (force && isNew) desk.forced(instanceId, modelId, Object.keys(nodeToRunner), caller)
  // What another node has just stopped may not be known here yet.
  if (desk.standing.isStopped(modelId) || desk.returns(modelId)) await desk.standing.unstop(modelId)
  return { commandId, instanceId, isNew }
}

/** What was asked for, so that it can be placed again; excluded nodes by what they keep over a restart. */
export function intentOfAsk (
  { cluster }: Pick<Desk, 'cluster'>, ask: Ask, origin: PlacementIntent['origin'], ttlSeconds: number | null
): PlacementIntent {
  const { sharding, instanceMeta, minNodes } = ask
  const excluded = ask.excluded.flatMap((ref) => cluster.resolve(ref)?.installId ?? [])
  return {
    origin, sharding, instanceMeta, minNodes, excluded: [...new Set(excluded)], failedOn: [], ttlSeconds,
    replaces: null
  }
}
