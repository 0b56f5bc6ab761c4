import type { Caller, ModelCard } from '../../../kernel/index.js'
import type { Plan } from '../planner/index.js'
import { bodyOf, changed, stateCard } from '../../runners/service.js'
import type { Instance, PlacementIntent, RingInstance, Shard, ShardBody } from '../../runners/service.js'
import type { Facts } from '../facts.js'

/**
 * The instance that a plan gives. `newId` names it and its runners; `placement` is what was asked for, so
 * that it can be placed again.
 */
export function instanceOf (
  plan: Pick<Plan, 'ranks' | 'sharding' | 'instanceMeta'>, card: ModelCard,
  { nodes }: Pick<Facts, 'nodes'>, newId: () => string, placement?: PlacementIntent
): Instance {
  const runnerToShard: Record<string, Shard> = {}
  const nodeToRunner: Record<string, string> = {}
  // Every node is told of the card, and it may name thousands of files.
  const modelCard = stateCard({ ...card, files: [] })
  plan.ranks.forEach(({ nodeId, startLayer, endLayer }, deviceRank) => {
    const runnerId = newId()
    nodeToRunner[nodeId] = runnerId
    runnerToShard[runnerId] = shardOf(plan.sharding === 'Tensor' && plan.ranks.length > 1, {
      modelCard,
      deviceRank,
      worldSize: plan.ranks.length,
      startLayer,
      endLayer,
      nLayers: card.nLayers
    })
  })
  const body: RingInstance = {
    instanceId: newId(),
    contextTokenLimit: card.contextLength,
    systemRole: null,
    engine: card.engine,
    shardAssignments: { modelId: card.modelId, runnerToShard, nodeToRunner },
    hostsByNode: {},
    ...placement === undefined ? {} : { placement }
  }
  const nodeIds = plan.ranks.map(({ nodeId }) => nodeId)
  const tagged: Instance = plan.instanceMeta === 'LlamaRpc' ? starOf(body, nodeIds) : { RingInstance: body }
  return withHosts(tagged, nodeIds, nodes)
}

/** The instance of a driver, which is the first node, and its donors. */
function starOf (body: RingInstance, nodeIds: readonly string[]): Instance {
  return { LlamaRpcInstance: { ...body, driverNode: nodeIds[0]!, donorEndpoints: {} } }
}

/** The instance with where its nodes, named by rank, reach each other. */
export function withHosts (
  instance: Instance, nodeIds: readonly string[], nodes: Facts['nodes']
): Instance {
  // Where a node reaches another one; nothing where there is no link, such as from a node to itself.
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

const shardOf = (tensor: boolean, body: ShardBody): Shard =>
  tensor ? { TensorShardMetadata: body } : { PipelineShardMetadata: body }

/** The instance as this caller may see it: addresses are for the operator. */
export function shownTo (caller: Caller, instance: Instance): unknown {
  if (caller.authorities.has('operator')) return instance
  const [tag, body] = Object.entries(instance)[0] as [string, object]
  const endpoints = tag === 'LlamaRpcInstance' ? { donorEndpoints: null } : {}
  return { [tag]: { ...body, hostsByNode: null, ...endpoints } }
}

/** A model somewhere, on one node or more, for as long as nobody stops it. */
const ANYWHERE: PlacementIntent = {
  origin: 'request',
  sharding: 'Pipeline',
  instanceMeta: 'Ring',
  minNodes: 1,
  excluded: [],
  failedOn: [],
  ttlSeconds: null,
  replaces: null
}

/** The intent behind a model that the cluster places by itself. */
export const AUTOPLACE: PlacementIntent = { ...ANYWHERE, origin: 'autoplace' }

/** What was asked for when the instance was placed; for one that was given as it is, what it shows. */
export const intentOf = (instance: Instance): PlacementIntent =>
  bodyOf(instance).placement ?? intentShownBy(instance)

/** What somebody asks for who gives an instance as it is. */
export function intentShownBy (instance: Instance): PlacementIntent {
  const shards = Object.values(bodyOf(instance).shardAssignments.runnerToShard)
  return {
    ...ANYWHERE,
    sharding: shards.some((shard) => 'TensorShardMetadata' in shard) ? 'Tensor' : 'Pipeline',
    instanceMeta: 'LlamaRpcInstance' in instance ? 'LlamaRpc' : 'Ring',
    minNodes: shards.length
  }
}

/** The model of an instance. */
export const modelOf = (instance: Instance): string => bodyOf(instance).shardAssignments.modelId

/** The ids of the nodes of an instance. */
export const nodesOf = (instance: Instance): string[] =>
  Object.keys(bodyOf(instance).shardAssignments.nodeToRunner)
