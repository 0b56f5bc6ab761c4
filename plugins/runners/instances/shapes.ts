import type { ModelCard } from '../../../kernel/index.js'

/** A card with more files goes into an instance without them: the document goes to every node. */
const INSTANCE_FILES_MAX = 64

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

/** What was asked for when an instance was placed, so that it can be placed again when it is lost. */
export type PlacementIntent = {
  /** Who asked: somebody, `plugins.placement.autoplace`, or a request for a model that was not placed. */
  origin: 'request' | 'autoplace' | 'on_demand'
  sharding: 'Pipeline' | 'Tensor'
  instanceMeta: 'Ring' | 'LlamaRpc'
  minNodes: number
  /** Install ids of nodes that were excluded, and of those on which the model failed since. */
  excluded: string[]
  failedOn: string[]
  /** Without a request for so long it is unloaded, seconds; null for never. */
  ttlSeconds: number | null
  /** The instance whose place it took; null for one that is the first. */
  replaces: string | null
}

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
  /** Absent in an instance that the caller composed itself. */
  placement?: PlacementIntent
  /** The content its runners load, a manifest's digest. Absent for what ships, and where nobody knew it. */
  modelDigest?: string
  /** ISO-8601. Once set it takes no new requests and goes when its last one has ended, at the latest then. */
  drainUntil?: string
}

/** One rank, the driver, runs llama.cpp's server with the whole model; the others lend it memory and work. */
export type LlamaRpcInstance = RingInstance & {
  /** Node id. */
  driverNode: string
  /** The links on which the driver reaches its donors, by node id in the order of their ranks. */
  donorEndpoints: RingInstance['hostsByNode']
}

/** An instance as the control document and /state hold it: one key that names how its ranks talk. */
export type Instance = { RingInstance: RingInstance } | { LlamaRpcInstance: LlamaRpcInstance }

/** The fields that every kind of instance has. */
export function bodyOf (instance: Instance): RingInstance {
  return 'LlamaRpcInstance' in instance ? instance.LlamaRpcInstance : instance.RingInstance
}

/** The instance with some of these fields changed. */
export function changed (instance: Instance, change: Partial<RingInstance>): Instance {
  return 'LlamaRpcInstance' in instance
    ? { LlamaRpcInstance: { ...instance.LlamaRpcInstance, ...change } }
    : { RingInstance: { ...instance.RingInstance, ...change } }
}

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

/** What the instance asks of the node; null when it does not name it. */
export function assignmentOf (instance: Instance, nodeId: string): Assignment | null {
  const {
    instanceId,
    shardAssignments: { modelId, nodeToRunner }
  } = bodyOf(instance)
  const runnerId = nodeToRunner[nodeId]
  return runnerId === undefined ? null : { instanceId, runnerId, modelId }
}

/** The part of the model that the node holds for the instance; null when it holds none. */
export function shardOf (instance: Instance, nodeId: string): ShardBody | null {
  const { nodeToRunner, runnerToShard } = bodyOf(instance).shardAssignments
  const runnerId = nodeToRunner[nodeId]
  const tagged = runnerId === undefined ? undefined : runnerToShard[runnerId]
  return tagged === undefined ? null : Object.values(tagged)[0] as ShardBody
}

/** True for the node of the first rank: it gets the tasks of the instance, and ends it for all ranks. */
export function leads (instance: Instance, nodeId: string): boolean {
  const rank = (id: string): number => shardOf(instance, id)?.deviceRank ?? Infinity
  // Where the ranks are not told, it is still one node.
  const [first] = Object.keys(bodyOf(instance).shardAssignments.nodeToRunner)
    .sort((a, b) => rank(a) < rank(b) || (rank(a) === rank(b) && a < b) ? -1 : 1)
  return first === nodeId
}

/** Every runner id the instances name, on any node. */
export function namedRunners (instances: Iterable<Instance>): Set<string> {
  const named = new Set<string>()
  for (const instance of instances) {
    for (const runnerId of Object.keys(bodyOf(instance).shardAssignments.runnerToShard)) named.add(runnerId)
  }
  return named
}

/** True for a donor: a node of the instance that serves no task itself, but computes for its driver. */
export function lends (instance: RingInstance | LlamaRpcInstance, nodeId: string): boolean {
  return 'driverNode' in instance && instance.driverNode !== nodeId
}
