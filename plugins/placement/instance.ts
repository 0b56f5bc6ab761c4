import type { Caller, ModelCard } from '../../kernel/index.js'
import type { Plan } from './planner/types.js'
import { stateCard } from '../runners/service.js'
import type { Instance, PlacementIntent, RingInstance, Shard, ShardBody } from '../runners/service.js'
import type { StateView } from './state-view.js'

/**
 * The instance that a plan gives. `newId` names it and its runners; `placement` is what was asked for, so
 * that it can be placed again.
 */
export function instanceOf (
  plan: Pick<Plan, 'ranks' | 'sharding'>, card: ModelCard, state: Pick<StateView, 'topology'>,
  newId: () => string, placement?: PlacementIntent
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
  return {
    RingInstance: {
      instanceId: newId(),
      contextTokenLimit: card.contextLength,
      systemRole: null,
      engine: card.engine,
      shardAssignments: { modelId: card.modelId, runnerToShard, nodeToRunner },
      hostsByNode: hostsOf(plan.ranks.map(({ nodeId }) => nodeId), state),
      ...placement === undefined ? {} : { placement }
    }
  }
}

const shardOf = (tensor: boolean, body: ShardBody): Shard =>
  tensor ? { TensorShardMetadata: body } : { PipelineShardMetadata: body }

/** Where each node reaches the next one of the ring; nothing for a node that is alone. */
export function hostsOf (
  ring: readonly string[], { topology }: Pick<StateView, 'topology'>
): RingInstance['hostsByNode'] {
  return Object.fromEntries(ring.map((nodeId, i) => {
    const next = ring[(i + 1) % ring.length]!
    const at = topology.connections[nodeId]?.[next]?.find(({ session }) => session)?.sinkMultiaddr
    return [nodeId, at == null ? [] : [{ ip: at.ipAddress, port: at.port }]]
  }))
}

/** The instance as this caller may see it: addresses are for the operator. */
export function shownTo (caller: Caller, instance: Instance): unknown {
  if (caller.authorities.has('operator')) return instance
  return { RingInstance: { ...instance.RingInstance, hostsByNode: null } }
}
