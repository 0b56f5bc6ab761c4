import type { ModelCard } from '../../../kernel/index.js'
import { bodyOf, isRpcServerNode, shardOf } from '../instances/shapes.js'
import type { Instance, RingInstance, ShardBody } from '../instances/sections.js'

/** Number of layers on a node and, if it uses several devices, the layers on each GPU. */
export interface Share { layers: number, gpus?: readonly number[] }

export interface DonorRank extends Share { nodeId: string, runnerId: string }

export type Role =
  | Share & { kind: 'driver', tensor: boolean, donors: DonorRank[] }
  | { kind: 'donor', driverNode: string, card: ModelCard }

/**
 * True if a role opens local ports without authentication: rpc-server has none, and a driver reaches its
 * donors through such ports.
 */
export function opensPorts (role: Role | null): boolean {
  return role !== null && (role.kind === 'donor' || role.donors.length > 0)
}

/** The role of a node in an instance; null if the instance has no driver or does not name the node. Pure. */
export function roleOf (instance: Instance, nodeId: string): Role | null {
  const own = shardOf(instance, nodeId)
  if (own === null || !('LlamaRpcInstance' in instance)) return null
  const { driverNode, shardAssignments: { nodeToRunner } } = instance.LlamaRpcInstance
  if (isRpcServerNode(bodyOf(instance), nodeId)) return { kind: 'donor', driverNode, card: cardOf(own) }
  const donors = Object.entries(nodeToRunner).flatMap(([id, runnerId]) => {
    const shard = shardOf(instance, id)
    return id === nodeId || shard === null ? [] : [{ nodeId: id, runnerId, shard }]
  }).sort((a, b) => a.shard.deviceRank - b.shard.deviceRank)
  return {
    kind: 'driver', tensor: isTensor(bodyOf(instance), nodeId), ...shareOf(own),
    donors: donors.map(({ nodeId: id, runnerId, shard }) => ({ nodeId: id, runnerId, ...shareOf(shard) }))
  }
}

export const shareOf = ({ startLayer, endLayer, gpuLayers }: ShardBody): Share =>
  ({ layers: endLayer - startLayer, ...(gpuLayers ?? []).length === 0 ? {} : { gpus: gpuLayers! } })

function isTensor ({ shardAssignments: { nodeToRunner, runnerToShard } }: RingInstance, id: string): boolean {
  return 'TensorShardMetadata' in (runnerToShard[nodeToRunner[id] ?? ''] ?? {})
}

/** The card of a shard with plain byte counts, and without files because a donor has none. */
function cardOf ({ modelCard: { storageSize, files: _, ...card } }: ShardBody): ModelCard {
  return { ...card, totalBytes: storageSize.inBytes, files: [] }
}
