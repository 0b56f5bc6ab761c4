import { delay, SvcError } from '../../../kernel/index.js'
import type { Caller, Clock, Cluster } from '../../../kernel/index.js'
import { errors } from '../errors.js'
import type { FactsReader } from '../facts.js'
import type { WaitList } from '../waitlist.js'
import { instanceOf } from './instance.js'
import { LOOK_MS } from './planning.js'
import type { Ask, Outcome, Planning } from './planning.js'
import { bodyOf, runnerErrors } from '../../runners/service.js'
import type { Instance, Instances, PlacementIntent } from '../../runners/service.js'

/** What placing, removing and waiting work with. */
export interface PlacementDeps {
  clock: Clock
  cluster: Cluster
  planning: Planning
  instances: Pick<Instances, 'place' | 'remove' | 'drain'>
  waitList: WaitList
  facts: FactsReader
  /** True for a model that is placed without anybody asking for it: by itself, or by the next request. */
  returns (modelId: string): boolean
  /** How long a stopped instance may go on with the requests it has, where nobody says it, seconds. */
  drainSeconds: number
  newId (): string
  /** Tells the event log that memory was not checked. */
  forced (instanceId: string, modelId: string, nodeIds: string[], caller: Caller): void
}

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
  deps: PlacementDeps, wish: Wish, whom: For
): Promise<{ outcome: Outcome, entered: Entered }> {
  for (let tries = 1; ; tries++) {
    const outcome = await deps.planning.plan(wish, whom.signal)
    const { plan, card, facts, instanceMeta } = outcome
    const intent = intentOfWish(deps, { ...wish, instanceMeta })
    const instance = instanceOf(plan, card, facts, deps.newId, intent)
    try {
      return { outcome, entered: await enter(deps, instance, whom.caller, wish.force) }
    } catch (error) {
      if (!refused(error) || tries === TRIES) throw error
      await delay(deps.clock, LOOK_MS, whom.signal)
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
  deps: PlacementDeps, instance: Instance, caller: Caller, force: boolean
): Promise<Entered> {
  const commandId = deps.newId()
  const instanceId = await deps.instances.place(instance, { commandId, force })
  const isNew = instanceId === bodyOf(instance).instanceId
  const { modelId, nodeToRunner } = bodyOf(instance).shardAssignments
  if (force && isNew) deps.forced(instanceId, modelId, Object.keys(nodeToRunner), caller)
  // What another node has just stopped may not be known here yet.
  if (deps.waitList.isStopped(modelId) || deps.returns(modelId)) await deps.waitList.unstop(modelId)
  return { commandId, instanceId, isNew }
}

/** What was asked for, so that it can be placed again; excluded nodes by what they keep over a restart. */
function intentOfWish (
  { cluster }: PlacementDeps,
  { origin, sharding, instanceMeta, minNodes, excluded, ttlSeconds }: Wish & Pick<Outcome, 'instanceMeta'>
): PlacementIntent {
  const installIds = excluded.flatMap((ref) => cluster.resolve(ref)?.installId ?? [])
  return {
    origin, sharding, instanceMeta, minNodes, excluded: [...new Set(installIds)], failedOn: [], ttlSeconds,
    replaces: null
  }
}
