import type { ModelCard } from '../../kernel/index.js'
import { INSTANCE_FILES_MAX } from './limits.js'

/** A model card as /state shows it: byte counts are `{inBytes}`. */
export type StateCard = Omit<ModelCard, 'totalBytes' | 'files'> & {
  storageSize: { inBytes: number }
  files: { path: string, role: string, size: { inBytes: number }, sha256?: string }[]
}

/** The part of a model one runner holds; layers are half open. */
export interface ShardBody {
  modelCard: StateCard
  deviceRank: number
  worldSize: number
  startLayer: number
  endLayer: number
  nLayers: number
}
export type Shard = { PipelineShardMetadata: ShardBody } | { TensorShardMetadata: ShardBody }

export type RingInstance = {
  instanceId: string
  contextTokenLimit: number
  systemRole: string | null
  engine: string
  shardAssignments: {
    modelId: string
    runnerToShard: Record<string, Shard>
    nodeToRunner: Record<string, string>
  }
  hostsByNode: Record<string, { ip: string, port: number }[]>
}

/** An instance as the control document and /state hold it: one key that names how its ranks talk. */
export type Instance = { RingInstance: RingInstance }

/** What one node is to run for an instance. */
export interface Assignment {
  instanceId: string
  runnerId: string
  modelId: string
}

/** The card in the shape of /state. A long list of files is left out: every node holds every instance. */
export function stateCard (card: ModelCard): StateCard {
  const { totalBytes, files: all, ...rest } = card
  const files = all.length > INSTANCE_FILES_MAX ? [] : all
  return {
    ...rest,
    storageSize: { inBytes: totalBytes },
    files: files.map(({ bytes, ...file }) => ({ ...file, size: { inBytes: bytes } }))
  }
}

/** The placement of a whole model on one node: always one pipeline stage in a ring of one. */
export function soloInstance (
  ids: { instanceId: string, runnerId: string, nodeId: string },
  card: ModelCard
): Instance {
  const shard: Shard = {
    PipelineShardMetadata: {
      modelCard: stateCard(card),
      deviceRank: 0,
      worldSize: 1,
      startLayer: 0,
      endLayer: card.nLayers,
      nLayers: card.nLayers
    }
  }
  return {
    RingInstance: {
      instanceId: ids.instanceId,
      contextTokenLimit: card.contextLength,
      systemRole: null,
      engine: card.engine,
      shardAssignments: {
        modelId: card.modelId,
        runnerToShard: { [ids.runnerId]: shard },
        nodeToRunner: { [ids.nodeId]: ids.runnerId }
      },
      hostsByNode: { [ids.nodeId]: [] }
    }
  }
}

/** What the instance asks of the node; null when it does not name it. */
export function assignmentOf (instance: Instance, nodeId: string): Assignment | null {
  const {
    instanceId,
    shardAssignments: { modelId, nodeToRunner }
  } = instance.RingInstance
  const runnerId = nodeToRunner[nodeId]
  return runnerId === undefined ? null : { instanceId, runnerId, modelId }
}

/** Every runner id the instances name, on any node. */
export function namedRunners (instances: Iterable<Instance>): Set<string> {
  const named = new Set<string>()
  for (const { RingInstance: ring } of instances) {
    for (const runnerId of Object.keys(ring.shardAssignments.runnerToShard)) named.add(runnerId)
  }
  return named
}
