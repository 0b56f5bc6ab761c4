import { compareText } from './candidates.js'
import { canPlan, solve } from './solve.js'
import type { ClusterView, InstanceMemory, PlanRequest } from './types.js'

/** The cluster as it is once these instances are unloaded. */
export function without (view: ClusterView, gone: readonly InstanceMemory[]): ClusterView {
  const ids = new Set(gone.map(({ instanceId }) => instanceId))
  return {
    ...view, instances: view.instances.filter(({ instanceId }) => !ids.has(instanceId)),
    reservations: view.reservations.filter(({ instanceId = '' }) => !ids.has(instanceId)),
    releasing: [...view.releasing, ...gone.flatMap(({ memory }) => memory)]
  }
}

export const bytesOf = ({ memory }: InstanceMemory): number =>
  memory.reduce((all, { bytes }) => all + bytes, 0)

/** Bytes to load again per second without a request: a model twice as large stays twice as long. */
const value = (one: InstanceMemory): number => bytesOf(one) / ((one.idleSeconds ?? 0) + 1)

const byValue = (a: InstanceMemory, b: InstanceMemory): number =>
  Number(b.onDemand === true) - Number(a.onDemand === true) || value(a) - value(b) ||
  compareText(a.instanceId, b.instanceId)

/**
 * The idle instances to unload so that the request fits, the least valuable first: those that requests
 * placed come before those of people. Each model keeps its `minimum` of instances. Empty if the request has
 * to wait until others are idle or unloaded; null if waiting cannot help. Pure.
 */
export function evictions (
  request: PlanRequest, view: ClusterView, minimum = (_modelId: string): number => 0
): InstanceMemory[] | null {
  const leaving = view.instances.filter((one) => one.leaving === true)
  const soon = leaving.filter(({ idleSeconds }) => idleSeconds !== null)
  // The open requests of one that leaves may take long, so prefer others that can go at once.
  const first = soon.length < leaving.length ? choose(request, without(view, soon), minimum) : null
  return first !== null && first.length > 0 ? first : choose(request, without(view, leaving), minimum)
}

function choose (
  request: PlanRequest, rest: ClusterView, minimum: (modelId: string) => number
): InstanceMemory[] | null {
  const there = rest.instances.filter(({ leaving }) => leaving !== true)
  const fits = (gone: readonly InstanceMemory[]): boolean => canPlan(request, without(rest, gone))
  const countOf = (some: readonly InstanceMemory[], modelId: string): number =>
    some.filter((one) => one.modelId === modelId).length
  const spare = (some: readonly InstanceMemory[]): InstanceMemory[] => some.filter(({ modelId }, i) =>
    minimum(modelId) === 0 ||
    countOf(there, modelId) - minimum(modelId) > countOf(some.slice(0, i), modelId))
  if (!fits(spare(there.filter(({ idleSeconds }) => idleSeconds !== undefined)))) return null
  const idle = spare(there.filter(({ idleSeconds }) => idleSeconds != null).sort(byValue))
  if (fits([]) || !fits(idle)) return []
  let [least, most] = [1, idle.length]
  while (least < most) {
    const middle = Math.floor((least + most) / 2)
    if (fits(idle.slice(0, middle))) most = middle
    else least = middle + 1
  }
  // The last of these is on a node of the plan; most others may be elsewhere.
  const result = solve(request, without(rest, idle.slice(0, least)))
  const nodeIds = new Set(result.ok ? result.plan.ranks.map(({ nodeId }) => nodeId) : [])
  const near = idle.slice(0, least).filter(({ memory }) => memory.some(({ nodeId }) => nodeIds.has(nodeId)))
  return near.reduceRight<InstanceMemory[]>((chosen, one) => {
    const fewer = chosen.filter((other) => other !== one)
    return fits(fewer) ? fewer : chosen
  }, near)
}
