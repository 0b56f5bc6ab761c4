import { bodyOf, type Instance, type PlacementIntent } from '../../runners/service.js'
import { AUTOPLACE, idOf, modelOf } from '../place/instance.js'
import type { InstanceFailure } from '../progress/progress.js'
import type { RoleModels } from '../service.js'
import type { WaitingEntry } from '../waitlist.js'

export interface Situation {
  /** Wall-clock time in ms. */
  now: number
  instances: readonly Instance[]
  /** Runner statuses by runner id; each status is an object with one key. */
  runners: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  failures: readonly InstanceFailure[]
  nodes: readonly { nodeId: string, installId: string, name: string }[]
  gone: ReadonlySet<string>
  /** Descriptions of broken links, by instance id. */
  cut: ReadonlyMap<string, string>
  leaving: ReadonlySet<string>
  drained: ReadonlySet<string>
  waiting: ReadonlyMap<string, WaitingEntry>
  stopped: ReadonlySet<string>
  autoplace: readonly string[]
  /** The models whose policy decides how many instances run. */
  policies: ReadonlySet<string>
  roles: ReadonlyMap<string, RoleModels>
}

export interface FitChecks { fits (modelId: string, intent: PlacementIntent): boolean, newId (): string }

export interface RolePlan {
  remove: string[]
  forget: [id: string, why: string][]
  enter: { systemRole: string, modelId: string }[]
}

/** The role for which the cluster placed the instance; undefined for other instances. */
export const roleOf = (instance: Instance): string | undefined => bodyOf(instance).placement?.systemRole

/**
 * Compares each role with the models that its plugin requests. A role keeps one instance: the first with an
 * acceptable model. A model that other clients or `autoplace` run needs no second instance. A role whose
 * plugin is not on this node keeps no instance. Pure.
 */
export function planRoles (situation: Situation, judge: FitChecks): RolePlan {
  const { instances, waiting, roles } = situation
  const names = new Set([
    ...roles.keys(), ...instances.flatMap((one) => roleOf(one) ?? []),
    ...[...waiting.values()].flatMap(({ intent }) => intent.systemRole ?? [])
  ])
  const plans = [...names].map((systemRole) => planRole(situation, judge, systemRole))
  return {
    remove: plans.flatMap(({ remove }) => remove), forget: plans.flatMap(({ forget }) => forget),
    enter: plans.flatMap(({ enter }) => enter)
  }
}

function planRole (situation: Situation, judge: FitChecks, systemRole: string): RolePlan {
  const { instances, waiting, roles } = situation
  const models = roles.get(systemRole)?.models ?? []
  const replaced = new Set(instances.map((one) => bodyOf(one).placement?.replaces))
  // Skip instances that are being replaced: they have a waiting entry or a successor.
  const own = instances.filter((one) => roleOf(one) === systemRole &&
    bodyOf(one).drainUntil === undefined && !waiting.has(idOf(one)) && !replaced.has(idOf(one)))
  const entries = [...waiting].filter(([id, { intent }]) =>
    intent.systemRole === systemRole && !replaced.has(id))
  const kept = own.find((one) => models.includes(modelOf(one)))
  // An entry whose instance still exists means that this instance is being replaced.
  const there = new Set(instances.map(idOf))
  const moving = entries.find(([id, { modelId }]) => there.has(id) && models.includes(modelId))?.[0]
  const modelId = kept === undefined && moving === undefined
    ? missingOf(situation, judge, systemRole, entries)
    : null
  const entry = moving ?? entries.find(([, waits]) => waits.modelId === modelId)?.[0]
  return {
    remove: own.filter((one) => one !== kept).map(idOf),
    forget: entries.filter(([id]) => id !== entry).map(([id]) =>
      [id, kept === undefined ? 'it is no longer wanted' : `${idOf(kept)} already serves the role`]),
    enter: modelId === null || entry !== undefined ? [] : [{ systemRole, modelId }]
  }
}

/** The model to place for the role; null if the role needs none or an acceptable model is already placed. */
function missingOf (
  { instances, waiting, roles, stopped, autoplace }: Situation, judge: FitChecks, systemRole: string,
  entries: readonly [string, WaitingEntry][]
): string | null {
  const { models, waits } = roles.get(systemRole) ?? { models: [], waits: false }
  const ordinary = new Set([
    ...instances.filter((one) => roleOf(one) === undefined && bodyOf(one).drainUntil === undefined)
      .map(modelOf),
    ...[...waiting.values()].filter(({ intent }) => intent.systemRole === undefined)
      .map((entry) => entry.modelId),
    ...autoplace.filter((modelId) => !stopped.has(modelId))
  ])
  const fits = (modelId: string, intent: PlacementIntent): boolean =>
    ordinary.has(modelId) || judge.fits(modelId, { ...intent, failedOn: [] })
  const begun = entries.map(([, entry]) => entry).filter(({ modelId }) => models.includes(modelId))
  const found = begun.find(({ modelId, intent }) => fits(modelId, intent))?.modelId ??
    models.find((modelId) => fits(modelId, { ...AUTOPLACE, systemRole })) ??
    begun[0]?.modelId ?? (waits ? models[0] : undefined)
  return found === undefined || ordinary.has(found) ? null : found
}
