import type { Caller, ModelCard, NodeReport } from '../../../kernel/index.js'
import type { Plan, PlanRank } from '../planner/types.js'
import { bodyOf, changed, stateCard } from '../../runners/service.js'
import type { Instance, PlacementIntent, RingInstance, Shard, ShardBody } from '../../runners/service.js'

export interface InstancePlan extends Pick<Plan, 'sharding' | 'instanceMeta' | 'contextLength' | 'slots'> {
  ranks: readonly Pick<PlanRank, 'nodeId' | 'startLayer' | 'endLayer' | 'gpuLayers'>[]
}

/**
 * Builds the instance for a plan. Calls `newId` for each rank's runner, then for the instance. `placement` is
 * the request's intent, which is recorded so that the instance can be placed again.
 */
export function instanceOf (
  plan: InstancePlan, card: ModelCard, nodes: readonly NodeReport[], newId: () => string,
  placement?: PlacementIntent
): Instance {
  const tag = plan.sharding === 'Tensor' && plan.ranks.length > 1
    ? 'TensorShardMetadata'
    : 'PipelineShardMetadata'
  const runnerToShard: Record<string, Shard> = {}
  const nodeToRunner: Record<string, string> = {}
  // Omit the file list, which may have thousands of entries, because every node stores a copy of the card.
  const modelCard = stateCard({ ...card, files: [] })
  plan.ranks.forEach(({ nodeId, startLayer, endLayer, gpuLayers }, deviceRank) => {
    const runnerId = newId()
    nodeToRunner[nodeId] = runnerId
    const worldSize = plan.ranks.length
    const shard = {
      modelCard, deviceRank, worldSize, startLayer, endLayer, nLayers: card.nLayers,
      ...gpuLayers === undefined ? {} : { gpuLayers: [...gpuLayers] }
    }
    runnerToShard[runnerId] = { [tag]: shard } as Shard
  })
  const body: RingInstance = {
    instanceId: newId(), contextTokenLimit: plan.contextLength,
    ...plan.slots === undefined ? {} : { slots: plan.slots }, systemRole: placement?.systemRole ?? null,
    engine: card.engine, shardAssignments: { modelId: card.modelId, runnerToShard, nodeToRunner },
    hostsByNode: {}, ...placement === undefined ? {} : { placement }
  }
  return withHosts(plan.instanceMeta === 'LlamaRpc'
    ? { LlamaRpcInstance: { ...body, driverNode: plan.ranks[0]!.nodeId, donorEndpoints: {} } }
    : { RingInstance: body }, nodes)
}

/** Adds network addresses: in a ring those of each rank's next rank, in a star those of the donors. */
function withHosts (instance: Instance, nodes: readonly NodeReport[]): Instance {
  const nodeIds = ranksOf(instance).map(({ nodeId }) => nodeId)
  // Addresses at which the node `from` reaches the node `sink`; empty if they have no link.
  const to = (from: string, sink: string): RingInstance['hostsByNode'][string] =>
    nodes.filter(({ view }) => view.nodeId === from)
      .flatMap(({ links }) => links.filter(({ nodeId }) => nodeId === sink))
      .map(({ ipAddress: ip, port }) => ({ ip, port }))
  if (!('LlamaRpcInstance' in instance)) {
    return changed(instance, {
      hostsByNode: Object.fromEntries(nodeIds.map((id, i) =>
        [id, to(id, nodeIds[(i + 1) % nodeIds.length]!)]))
    })
  }
  const [driver, ...donors] = nodeIds as [string, ...string[]]
  return {
    LlamaRpcInstance: {
      ...instance.LlamaRpcInstance,
      donorEndpoints: Object.fromEntries(donors.map((id) => [id, to(driver, id)])),
      hostsByNode: Object.fromEntries([
        [driver, donors.flatMap((id) => to(driver, id))], ...donors.map((id) => [id, to(id, driver)])
      ])
    }
  }
}

/** The instance without network addresses, unless the caller is an operator. */
export function visibleTo (caller: Caller, instance: Instance): unknown {
  if (caller.authorities.has('operator')) return instance
  const [tag, body] = Object.entries(instance)[0] as [string, object]
  const endpoints = tag === 'LlamaRpcInstance' ? { donorEndpoints: null } : {}
  return { [tag]: { ...body, hostsByNode: null, ...endpoints } }
}

/** The intent of an automatic placement, which lets the model run on any node until an operator stops it. */
export const AUTOPLACE: PlacementIntent = {
  origin: 'autoplace',
  sharding: 'Pipeline',
  instanceMeta: 'Ring',
  minNodes: 1,
  excluded: [],
  failedOn: [],
  ttlSeconds: null,
  replaces: null
}

export const intentOf = (instance: Instance): PlacementIntent =>
  bodyOf(instance).placement ?? intentShownBy(instance)

export function intentShownBy (instance: Instance): PlacementIntent {
  const ranks = ranksOf(instance)
  return {
    ...AUTOPLACE, origin: 'request',
    sharding: ranks.some(({ tensor }) => tensor) ? 'Tensor' : 'Pipeline',
    instanceMeta: 'LlamaRpcInstance' in instance ? 'LlamaRpc' : 'Ring', minNodes: ranks.length
  }
}

export const idOf = (instance: Instance): string => bodyOf(instance).instanceId

export const modelOf = (instance: Instance): string => bodyOf(instance).shardAssignments.modelId

export const nodesOf = (instance: Instance): string[] =>
  Object.keys(bodyOf(instance).shardAssignments.nodeToRunner)

export interface Rank { nodeId: string, runnerId: string, shard: ShardBody, tensor: boolean }

/** The ranks, sorted by `deviceRank`; runners without a shard are omitted. */
export function ranksOf (instance: Instance): Rank[] {
  const { nodeToRunner, runnerToShard } = bodyOf(instance).shardAssignments
  return Object.entries(nodeToRunner).flatMap(([nodeId, runnerId]): Rank[] => {
    const [tag, shard] = Object.entries(runnerToShard[runnerId] ?? {})[0] ?? []
    return shard === undefined ? [] : [{ nodeId, runnerId, shard, tensor: tag === 'TensorShardMetadata' }]
  }).sort((a, b) => a.shard.deviceRank - b.shard.deviceRank)
}

export function cardOf ({ modelCard }: ShardBody): ModelCard {
  const { storageSize, files, ...rest } = modelCard
  return {
    ...rest, totalBytes: storageSize.inBytes,
    files: files.map(({ size, ...file }) => ({ ...file, bytes: size.inBytes }))
  }
}
