import type { ModelCard } from '../../../kernel/index.js'
import { bodyOf, isHelper, shardOf } from '../instances/shapes.js'
import type { Instance, RingInstance, ShardBody } from '../instances/sections.js'

/** Number of layers on a node and, if it uses several devices, the layers on each GPU. */
export interface Share { layers: number, gpus?: readonly number[] }

export interface DonorRank extends Share { nodeId: string, runnerId: string }

export interface RankRef { nodeId: string, runnerId: string }

/** A rank of a gang: equal programs on several nodes, of which the first one serves and starts the others. */
export interface GangRole { kind: 'gang', rank: number, ranks: RankRef[] }

/** A program's ability to form gangs. All programs of a gang have the same version. */
export interface GangOffer {
  version: string
  /** The families of models that it splits; empty: all. */
  models: readonly string[]
  /** True if its traffic goes through svc's links; else it uses the own `address` on interface `network`. */
  linked: boolean
  network?: string | undefined
  address?: string | undefined
  /** Why it cannot form gangs on this node. */
  problem: string | null
}

/** Ports by which a rank meets the others: its own, that to the next rank, and that of the first rank. */
export interface GangPlan extends Pick<GangOffer, 'network' | 'address'> {
  rank: number, size: number, port: number, next?: number | undefined, headPort: number
  headAddress?: string | undefined
}

export type Role =
  | Share & { kind: 'driver', tensor: boolean, donors: DonorRank[] }
  | { kind: 'donor', driverNode: string, card: ModelCard }
  | GangRole

/**
 * True if a role opens local ports without authentication: rpc-server and the programs of gangs have none,
 * and they reach each other through such ports.
 */
export function opensPorts (role: Role | null): boolean {
  return role !== null && (role.kind !== 'driver' || role.donors.length > 0)
}

/** The role of a node in an instance; null if it is alone there or the instance does not name it. Pure. */
export function roleOf (instance: Instance, nodeId: string): Role | null {
  const own = shardOf(instance, nodeId)
  if (own === null) return null
  const ranks = Object.entries(bodyOf(instance).shardAssignments.nodeToRunner).flatMap(([id, runnerId]) => {
    const shard = shardOf(instance, id)
    return shard === null ? [] : [{ nodeId: id, runnerId, shard }]
  }).sort((a, b) => a.shard.deviceRank - b.shard.deviceRank)
  if (!('LlamaRpcInstance' in instance)) {
    const rank = ranks.findIndex((one) => one.nodeId === nodeId)
    return ranks.length === 1 ? null : { kind: 'gang', rank, ranks }
  }
  const { driverNode } = instance.LlamaRpcInstance
  if (isHelper(bodyOf(instance), nodeId)) return { kind: 'donor', driverNode, card: cardOf(own) }
  return {
    kind: 'driver', tensor: isTensor(bodyOf(instance), nodeId), ...shareOf(own),
    donors: ranks.filter((one) => one.nodeId !== nodeId)
      .map(({ nodeId: id, runnerId, shard }) => ({ nodeId: id, runnerId, ...shareOf(shard) }))
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
