import type { ModelCard } from '../../../kernel/index.js'
import type { Part } from '../cards/memory-forecast.js'
import type { Instance, LlamaRpcInstance, RingInstance, ShardBody, StateCard } from './sections.js'

/** Limit on files listed in an instance; longer lists are omitted, because every node holds the document. */
const INSTANCE_FILES_MAX = 64

export function bodyOf (instance: Instance): RingInstance {
  return 'LlamaRpcInstance' in instance ? instance.LlamaRpcInstance : instance.RingInstance
}

export function changed (instance: Instance, change: Partial<RingInstance>): Instance {
  return 'LlamaRpcInstance' in instance
    ? { LlamaRpcInstance: { ...instance.LlamaRpcInstance, ...change } }
    : { RingInstance: { ...instance.RingInstance, ...change } }
}

export interface Assignment { instanceId: string, runnerId: string, modelId: string }

/** The card as in /state, without a long file list. */
export function stateCard (card: ModelCard): StateCard {
  const { totalBytes, files: all, ...rest } = card
  const files = all.length > INSTANCE_FILES_MAX ? [] : all
  return {
    ...rest, storageSize: { inBytes: totalBytes },
    files: files.map(({ bytes, ...file }) => ({ ...file, size: { inBytes: bytes } }))
  }
}

export function assignmentOf (instance: Instance, nodeId: string): Assignment | null {
  const { instanceId, shardAssignments: { modelId, nodeToRunner } } = bodyOf(instance)
  const runnerId = nodeToRunner[nodeId]
  return runnerId === undefined ? null : { instanceId, runnerId, modelId }
}

/** The part of the model on the node; null if the node holds no part. */
export function shardOf (instance: Instance, nodeId: string): ShardBody | null {
  const { nodeToRunner, runnerToShard } = bodyOf(instance).shardAssignments
  const runnerId = nodeToRunner[nodeId]
  const tagged = runnerId === undefined ? undefined : runnerToShard[runnerId]
  return tagged === undefined ? null : Object.values(tagged)[0] as ShardBody
}

/** The fraction of the model in a shard. Tensor ranks have every layer, so each holds an equal share. */
export function partOf ({ startLayer, endLayer, nLayers, worldSize }: ShardBody): Part {
  const hasAllLayers = endLayer - startLayer === nLayers
  const part = hasAllLayers ? { of: 1, parts: worldSize } : { of: endLayer - startLayer, parts: nLayers }
  // The shard comes from another node and may be malformed.
  return part.of > 0 && part.of <= part.parts ? part : { of: 1, parts: 1 }
}

/**
 * The fraction of the model on each device of a rank, omitting devices without layers. `gpu` is the number of
 * the GPU, null for the CPU, and 0 for a rank with a single device.
 */
export function devicePartsOf (shard: ShardBody | null): { gpu: number | null, part: Part }[] {
  if (shard === null) return [{ gpu: 0, part: { of: 1, parts: 1 } }]
  const { gpuLayers, startLayer, endLayer } = shard
  const { of, parts } = partOf(shard)
  if (gpuLayers === undefined) return [{ gpu: 0, part: { of, parts } }]
  const layers = endLayer - startLayer
  const rest = layers - gpuLayers.reduce((sum, count) => sum + count, 0)
  return [...gpuLayers.map((count, gpu) => ({ gpu, count })), { gpu: null, count: rest }]
    .filter(({ count }) => count > 0)
    .map(({ gpu, count }) => ({ gpu, part: { of: of * count, parts: parts * layers } }))
}

/** True if the node has the first rank: it gets the instance's tasks and ends the instance for all ranks. */
export function leads (instance: Instance, nodeId: string): boolean {
  const rank = (id: string): number => shardOf(instance, id)?.deviceRank ?? Infinity
  // Rank numbers may be missing; sorting by node id then still yields exactly one first rank.
  const [first] = Object.keys(bodyOf(instance).shardAssignments.nodeToRunner)
    .sort((a, b) => rank(a) < rank(b) || (rank(a) === rank(b) && a < b) ? -1 : 1)
  return first === nodeId
}

export function namedRunners (instances: Iterable<Instance>): Set<string> {
  const named = new Set<string>()
  for (const instance of instances) {
    for (const runnerId of Object.keys(bodyOf(instance).shardAssignments.runnerToShard)) named.add(runnerId)
  }
  return named
}

/** True for a node that serves no task itself but computes for the first rank: a donor, a rank of a gang. */
export function isHelper (instance: RingInstance | LlamaRpcInstance, nodeId: string): boolean {
  if ('driverNode' in instance) return instance.driverNode !== nodeId
  return (shardOf({ RingInstance: instance }, nodeId)?.deviceRank ?? 0) > 0
}
