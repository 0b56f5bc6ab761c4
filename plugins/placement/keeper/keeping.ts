import { bodyOf } from '../../runners/service.js'
import type { Facts } from '../facts.js'
import { idOf, intentOf, modelOf, nodesOf } from '../place/instance.js'
import type { Planning } from '../place/planning.js'
import { progressOf, type Progress } from '../progress/progress.js'
import type { RoleStatus, PlacementKeeper } from '../service.js'
import { MESSAGE_CHARS_MAX } from '../waitlist.js'
import { onceFor } from './once.js'
import { roleOf } from './roles.js'

/** Creates the service through which plugins keep an instance placed. `poke` schedules a keeper pass. */
export function keepingService (planning: Planning, poke: () => void): PlacementKeeper {
  const { roles, facts } = planning
  return {
    keep (keeping) {
      roles.set(keeping.systemRole, keeping)
      poke()
      return () => { roles.delete(keeping.systemRole) }
    },
    kept: (systemRole) => keptOf(facts.now(), systemRole, roles.get(systemRole)?.wanted().models ?? []),
    replace: async (instanceId, because) => { await replace(planning, instanceId, because) },
    isStopped: (modelId) => planning.isStopped(modelId)
  }
}

function keptOf (facts: Facts, systemRole: string, models: readonly string[]): RoleStatus | null {
  const all = Object.values(facts.instances).filter((one) => bodyOf(one).drainUntil === undefined)
  const own = all.find((one) => roleOf(one) === systemRole)
  const waits = Object.values(facts.waitingInstances).find(({ intent }) => intent.systemRole === systemRole)
  if (own === undefined && waits !== undefined) {
    const { instanceId, modelId, reason, message } = waits
    // Until the first attempt to place it, an entry's reason is the name of the role.
    const problem = reason === systemRole ? {} : { problem: message }
    return { instanceId, modelId, own: true, state: 'waiting', ...problem }
  }
  const found = own ?? models.flatMap((modelId) => all.filter((one) => modelOf(one) === modelId))[0]
  if (found === undefined) return null
  const progress = progressOf(facts, idOf(found))
  const problem = progress.kind === 'failed' ? { problem: progress.message } : {}
  return {
    instanceId: idOf(found), modelId: modelOf(found), own: own !== undefined, state: stateOf(progress),
    ...problem
  }
}

const COPYING = ['DownloadPending', 'DownloadOngoing']

function stateOf (progress: Progress): RoleStatus['state'] {
  if (progress.kind === 'ready' || progress.kind === 'failed') return progress.kind
  if (progress.kind !== 'starting') return 'waiting'
  const copies = progress.ranks.some(({ state, waitsFor }) => COPYING.includes(state) || waitsFor !== null)
  return copies ? 'downloading' : 'starting'
}

/** Replaces an instance in the same way as a lost one: adds the waiting entry, then removes the instance. */
async function replace (
  { ctx, facts: reader }: Planning, instanceId: string,
  { errorCode, errorMessage }: { errorCode: string, errorMessage: string }
): Promise<void> {
  const { clock, command, deps: { instances, cluster } } = ctx
  const instance = reader.now().instances[instanceId]
  if (instance === undefined || roleOf(instance) === undefined) return
  const modelId = modelOf(instance)
  const nodeIds = nodesOf(instance)
  const intent = intentOf(instance)
  instances.recordFailure({ instanceId, modelId, errorCode, errorMessage, affectedNodeIds: nodeIds })
  const failedOn = nodeIds.map((nodeId) => cluster.resolve(nodeId)?.installId ?? nodeId)
  const entry = {
    modelId, intent: { ...intent, failedOn }, replaces: intent.replaces, reason: errorCode,
    since: new Date(clock.now()).toISOString(), message: errorMessage.slice(0, MESSAGE_CHARS_MAX)
  }
  // Given this entry, the keeper removes the instance if it still exists, and places the model again.
  await command('wait', { id: instanceId, entry }, onceFor('wait', instanceId))
}
