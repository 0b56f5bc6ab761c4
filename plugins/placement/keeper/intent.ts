import { bodyOf } from '../../runners/service.js'
import type { Instance, PlacementIntent } from '../../runners/service.js'

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
export function intentOf (instance: Instance): PlacementIntent {
  const ring = bodyOf(instance)
  const shards = Object.values(ring.shardAssignments.runnerToShard)
  const tensor = shards.some((shard) => 'TensorShardMetadata' in shard)
  const instanceMeta = 'LlamaRpcInstance' in instance ? 'LlamaRpc' : 'Ring'
  return ring.placement ?? { ...ANYWHERE, sharding: tensor ? 'Tensor' : 'Pipeline', instanceMeta }
}

/** The model of an instance. */
export const modelOf = (instance: Instance): string => bodyOf(instance).shardAssignments.modelId

/** The ids of the nodes of an instance. */
export const nodesOf = (instance: Instance): string[] =>
  Object.keys(bodyOf(instance).shardAssignments.nodeToRunner)
