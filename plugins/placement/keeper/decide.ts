import { bodyOf, type Instance, type PlacementIntent } from '../../runners/service.js'
import { serves, type InstanceFailure } from '../progress/progress.js'
import { MESSAGE_CHARS_MAX, type WaitingEntry } from '../waitlist.js'
import { AUTOPLACE, idOf, intentOf, modelOf, nodesOf } from '../place/instance.js'
import { planRoles, type FitChecks, type Situation } from './roles.js'

/** Maximum number of times that an instance moves after failures on live nodes; then it stays failed. */
export const MOVES_MAX = 2

/**
 * A step of the keeper. Steps run in order, and the master may change between any two. `lose` adds a waiting
 * entry, then removes the instance; `move` adds an entry, then drains the instance; `drain` only drains;
 * `retire` drains a replica; `wait` only adds an entry; `forget` removes one.
 */
export type Step =
  | { do: 'forget', id: string, why: string }
  | { do: 'remove', id: string }
  | { do: 'drain', id: string }
  | { do: 'retire', id: string, modelId: string }
  | { do: 'lose', id: string, entry: WaitingEntry }
  | { do: 'move', id: string, entry: WaitingEntry }
  | { do: 'wait', id: string, entry: WaitingEntry }
  | { do: 'place', id: string, entry: WaitingEntry }

/**
 * Computes the steps that lead from the current to the desired placements. A waiting entry is done once an
 * instance has the entry's id as `replaces`. Pure.
 */
export function decide (situation: Situation, judge: FitChecks): Step[] {
  const { instances, waiting } = situation
  const roles = planRoles(situation, judge)
  const forgotten = new Map([...forgettable(situation), ...roles.forget])
  const left = new Map([...waiting].filter(([id]) => !forgotten.has(id)))
  const replaced = new Set(instances.map((one) => bodyOf(one).placement?.replaces))
  const beside = instances.filter((one) => stays(one) && (left.has(idOf(one)) || replaced.has(idOf(one))))
  const unwanted = instances.filter((one) => !beside.includes(one) &&
    (roles.remove.includes(idOf(one)) || movesInVain(situation, intentOf(one))))
  const losses = instances.filter((one) => !beside.includes(one) && !unwanted.includes(one))
    .flatMap((instance) => lossOf(situation, judge, instance))
  const wanted = [
    ...movesOff(situation, judge, losses),
    ...missing(situation, judge, left, losses),
    ...roles.enter.map(({ modelId, systemRole }) => newEntry(situation, judge, modelId, systemRole))
  ]
  const entered = [...losses, ...wanted]
    .flatMap((step): [string, WaitingEntry][] => 'entry' in step ? [[step.id, step.entry]] : [])
  return [
    ...[...forgotten].map(([id, why]): Step => ({ do: 'forget', id, why })),
    ...[...beside, ...unwanted].map((one): Step => ({ do: 'remove', id: idOf(one) })),
    ...losses,
    ...wanted,
    ...[...left, ...entered].map(([id, entry]): Step => ({ do: 'place', id, entry }))
  ]
}

/**
 * Waiting entries to remove because they are done or obsolete, with the reason. An entry is never removed
 * while the lost instance still exists and is not draining.
 */
function forgettable (situation: Situation): [string, string][] {
  const { instances, waiting, stopped } = situation
  const there = new Set(instances.filter(stays).map(idOf))
  const replaced = new Set([
    ...instances.map((one) => bodyOf(one).placement?.replaces),
    ...[...waiting.values()].map(({ replaces }) => replaces)
  ])
  const running = new Set(instances.filter(stays).map(modelOf))
  const first = new Map<string, string>()
  const oldestFirst = [...waiting].sort(([a, x], [b, y]) =>
    x.since.localeCompare(y.since) || (a < b ? -1 : 1))
  return oldestFirst.flatMap(([id, { modelId, intent }]): [string, string][] => {
    if (there.has(id)) return []
    if (replaced.has(id)) return [[id, 'it is placed']]
    if (movesInVain(situation, intent)) return [[id, 'its node is no longer drained']]
    if (there.has(intent.moves ?? '')) return []
    if (intent.replica !== undefined) return [[id, 'the policy of the model decides again']]
    if (intent.origin !== 'autoplace' || intent.systemRole !== undefined) return []
    if (stopped.has(modelId)) return [[id, 'an operator stopped the model']]
    if (running.has(modelId)) return [[id, 'an instance of the model exists']]
    if (first.has(modelId)) return [[id, `${first.get(modelId)} already waits for the model`]]
    first.set(modelId, id)
    return []
  })
}

export const stays = (instance: Instance): boolean => bodyOf(instance).drainUntil === undefined

/** True if an instance no longer has to move: it is not draining, and its nodes are no longer drained. */
function movesInVain ({ instances, drained }: Situation, { moves }: PlacementIntent): boolean {
  const from = moves === undefined ? undefined : instances.find((one) => idOf(one) === moves)
  return from !== undefined && stays(from) && !nodesOf(from).some((nodeId) => drained.has(nodeId))
}

/** The replacement of an instance on a drained node; 'waits' if there is only a waiting entry so far. */
function successorOf ({ instances, waiting }: Situation, id: string): Instance | 'waits' | undefined {
  const waits = [...waiting.values()].some(({ intent }) => intent.moves === id)
  return instances.find((one) => stays(one) && intentOf(one).moves === id) ?? (waits ? 'waits' : undefined)
}

/** The intent of an instance; once its policy is removed, a replica counts as placed by a person. */
function wantedOf ({ policies }: Situation, instance: Instance): PlacementIntent {
  const { replica, ...intent } = intentOf(instance)
  return replica === undefined || !policies.has(modelOf(instance)) ? intent : { ...intent, replica }
}

/** Adds a waiting entry for each instance on a drained node; the instance serves until it is replaced. */
function movesOff (situation: Situation, judge: FitChecks, losses: readonly Step[]): Step[] {
  const { now, instances, nodes, leaving, drained, waiting } = situation
  return instances.filter(stays).flatMap((one): Step[] => {
    const [id, modelId, intent] = [idOf(one), modelOf(one), wantedOf(situation, one)]
    const on = nodesOf(one).filter((nodeId) => drained.has(nodeId))
    // Skip roles, which may have only one instance: `lossOf` drains the instance before replacing it.
    if (on.length === 0 || intent.systemRole !== undefined) return []
    if (losses.some((step) => step.id === id) || nodesOf(one).some((at) => leaving.has(at))) return []
    if (successorOf(situation, id) !== undefined || waiting.has(id)) return []
    const names = on.map((nodeId) => nodes.find((node) => node.nodeId === nodeId)?.name ?? nodeId)
    const entry = {
      modelId, intent: { ...intent, failedOn: [], moves: id }, replaces: null,
      since: new Date(now).toISOString(), reason: 'node_drained',
      message: `It is to replace ${id}: ${names.join(', ')} is drained.`
    }
    return [{ do: 'wait', id: judge.newId(), entry }]
  })
}

/** The step for an instance that failed, whose node is lost or stopping, or whose link is broken. */
function lossOf (situation: Situation, judge: FitChecks, instance: Instance): Step[] {
  const { now, nodes, gone, cut, leaving, drained, failures } = situation
  const id = idOf(instance)
  const modelId = modelOf(instance)
  const intent = wantedOf(situation, instance)
  const step = (what: 'lose' | 'move', reason: string, text: string, wanted = intent): Step[] => [{
    do: what,
    id,
    entry: {
      modelId, intent: wanted, replaces: intent.replaces, since: new Date(now).toISOString(), reason,
      message: text.slice(0, MESSAGE_CHARS_MAX)
    }
  }]
  const lost = nodesOf(instance).filter((nodeId) => gone.has(nodeId))
  // Remove the instance, because a lost node cannot finish draining.
  if (!stays(instance)) return lost.length > 0 ? [{ do: 'remove', id }] : []
  const successor = successorOf(situation, id)
  if (successor !== undefined) {
    if (lost.length > 0) return [{ do: 'remove', id }]
    return successor !== 'waits' && serves(situation, successor) ? [{ do: 'drain', id }] : []
  }
  if (lost.length > 0) {
    const names = lost.map((lostId) => nodes.find(({ nodeId }) => nodeId === lostId)?.name ?? lostId)
    return step('lose', 'node_lost', `Its node ${names.join(', ')} was lost.`)
  }
  if (nodesOf(instance).some((nodeId) => leaving.has(nodeId))) {
    // Drain the instance while its replacement starts, but only if the model fits on another node.
    return judge.fits(modelId, intent) ? step('move', 'node_leaves', 'Its node is stopping.') : []
  }
  if (intent.systemRole !== undefined && nodesOf(instance).some((nodeId) => drained.has(nodeId))) {
    return judge.fits(modelId, intent) ? step('move', 'node_drained', 'Its node is drained.') : []
  }
  if (serves(situation, instance)) return []
  const severed = cut.get(id)
  // Give the instance up even if the model fits nowhere else: the entry then waits for a node or the link.
  if (severed !== undefined) return step('lose', 'link_lost', severed)
  const failure = failures.find(({ instanceId }) => instanceId === id)
  if (failure !== undefined && intent.replica !== undefined) return [{ do: 'retire', id, modelId }]
  if (failure === undefined || intent.failedOn.length >= MOVES_MAX) return []
  const moved = { ...intent, failedOn: [...intent.failedOn, ...affected(situation, failure, instance)] }
  return judge.fits(modelId, moved) ? step('lose', failure.errorCode, failure.errorMessage, moved) : []
}

function affected ({ nodes }: Situation, { affectedNodeIds }: InstanceFailure, instance: Instance): string[] {
  const ids = affectedNodeIds.length > 0 ? affectedNodeIds : nodesOf(instance)
  return ids.map((id) => nodes.find(({ nodeId }) => nodeId === id)?.installId ?? id)
}

/** A waiting entry for each `autoplace` model without an instance or entry. */
function missing (
  situation: Situation, judge: FitChecks,
  left: ReadonlyMap<string, WaitingEntry>, losses: readonly Step[]
): Step[] {
  const { instances, stopped, autoplace } = situation
  const there = new Set([
    ...instances.map(modelOf),
    ...[...left.values()].map(({ modelId }) => modelId),
    ...losses.flatMap((step) => 'entry' in step ? [step.entry.modelId] : [])
  ])
  return autoplace.filter((modelId) => !there.has(modelId) && !stopped.has(modelId))
    .map((modelId) => newEntry(situation, judge, modelId))
}

/** A waiting entry for a model that `autoplace` or a role requires. */
function newEntry ({ now }: Situation, judge: FitChecks, modelId: string, systemRole?: string): Step {
  const [intent, reason, message] = systemRole === undefined
    ? [AUTOPLACE, 'autoplace', 'It is to be placed automatically.']
    : [{ ...AUTOPLACE, systemRole }, systemRole, `It is to be placed for the ${systemRole}.`]
  const since = new Date(now).toISOString()
  return { do: 'wait', id: judge.newId(), entry: { modelId, intent, replaces: null, since, reason, message } }
}
