import type { FromSchema, ModelCard, SectionDecl } from '../../../kernel/index.js'
import { cardSchema } from '../cards/schema.js'
import { exactly } from '../declarations.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const strings = { type: 'array', items: text } as const

/** What was asked for when an instance was placed, so that it can be placed again when it is lost. */
export const placement = exactly({
  /** Who asked: somebody, `plugins.placement.autoplace`, or a request for a model that was not placed. */
  origin: { enum: ['request', 'autoplace', 'on_demand'] },
  sharding: { enum: ['Pipeline', 'Tensor'] },
  instanceMeta: { enum: ['Ring', 'LlamaRpc'] },
  minNodes: { type: 'integer', minimum: 1 },
  /** Install ids of nodes that were excluded, and of those on which the model failed since. */
  excluded: strings,
  failedOn: strings,
  /** Without a request for so long it is unloaded, seconds; null for never. */
  ttlSeconds: { type: ['number', 'null'], exclusiveMinimum: 0 },
  /** The instance whose place it took; null for one that is the first. */
  replaces: { type: ['string', 'null'] }
}, {
  /** What the cluster keeps it for, by a plugin's wish; absent for all else. */
  systemRole: text,
  /** Tokens of context that were asked for; absent for the usual number. */
  contextLength: count,
  /** Answers at once that were asked for; absent for as many as there is memory for. */
  slots: { type: 'integer', minimum: 1 },
  /** A chat template that was given, instead of the model's own. */
  chatTemplate: text,
  /** The instance that ends once this one serves, because its node is drained; absent for all else. */
  moves: text
})
export type PlacementIntent = FromSchema<typeof placement>

const { totalBytes: _, files: __, ...cardFields } = cardSchema.properties
const size = exactly({ inBytes: count })
const file = {
  type: 'object', required: ['path', 'role', 'size'], properties: { path: text, role: text, size }
} as const

/** A model card as /state shows it: byte counts are `{inBytes}`. */
export type StateCard = Omit<ModelCard, 'totalBytes' | 'files'> & {
  storageSize: { inBytes: number }
  files: { path: string, role: string, size: { inBytes: number }, sha256?: string }[]
}

/**
 * The part of a model one runner holds; layers are half open. `gpuLayers`: how many of them each GPU of the
 * node has, in the node's order, where it uses several devices; the rest are on its CPU.
 */
const shardBody = exactly({
  modelCard: {
    type: 'object',
    required: ['modelId', 'engine', 'storageSize', 'files'],
    properties: { ...cardFields, storageSize: size, files: { type: 'array', items: file } }
  },
  deviceRank: count,
  worldSize: count,
  startLayer: count,
  endLayer: count,
  nLayers: count
}, { gpuLayers: { type: 'array', items: count } })
export type ShardBody = Omit<FromSchema<typeof shardBody>, 'modelCard'> & { modelCard: StateCard }
export type Shard = { PipelineShardMetadata: ShardBody } | { TensorShardMetadata: ShardBody }

/** The schema of a one-key object, whose key says which of these its value is. */
const tagged = <const P extends Record<string, unknown>>(properties: P) =>
  ({ type: 'object', additionalProperties: false, minProperties: 1, maxProperties: 1, properties }) as const

const shard = tagged({ PipelineShardMetadata: shardBody, TensorShardMetadata: shardBody })
const host = { type: 'object', required: ['ip', 'port'], properties: { ip: text, port: count } } as const
const hosts = { type: 'object', additionalProperties: { type: 'array', items: host } } as const

const ringFields = {
  instanceId: text,
  contextTokenLimit: count,
  systemRole: { type: ['string', 'null'] },
  engine: text,
  shardAssignments: exactly({
    modelId: text,
    runnerToShard: { type: 'object', additionalProperties: shard },
    nodeToRunner: { type: 'object', additionalProperties: text }
  }),
  hostsByNode: hosts
} as const
const ringOptional = {
  /** Absent in an instance that the caller composed itself. */
  placement,
  /** Contexts for answers at once; absent for engines that keep none, and in older instances. */
  slots: { type: 'integer', minimum: 1 },
  /** The content its runners load, a manifest's digest. Absent for what ships, and where nobody knew it. */
  modelDigest: text,
  /** ISO-8601. Once set it takes no new requests and goes when its last one has ended, at the latest then. */
  drainUntil: text
} as const
const ringInstance = exactly(ringFields, ringOptional)
const llamaRpcInstance = exactly({
  ...ringFields,
  driverNode: text,
  /** The links on which the driver reaches its donors, by node id in the order of their ranks. */
  donorEndpoints: hosts
}, ringOptional)

type Hosts = Record<string, { ip: string, port: number }[]>
export type RingInstance = Omit<FromSchema<typeof ringInstance>, 'shardAssignments' | 'hostsByNode'> & {
  shardAssignments: {
    modelId: string, runnerToShard: Record<string, Shard>, nodeToRunner: Record<string, string>
  }
  hostsByNode: Hosts
}
/** One rank, the driver, runs llama.cpp's server with the whole model; the others lend it memory and work. */
export type LlamaRpcInstance = RingInstance & { driverNode: string, donorEndpoints: Hosts }
/** An instance as the control document and /state hold it: one key that names how its ranks talk. */
export type Instance = { RingInstance: RingInstance } | { LlamaRpcInstance: LlamaRpcInstance }

const bare = { type: 'object' } as const
const status = tagged({
  RunnerIdle: bare,
  RunnerConnecting: bare,
  RunnerConnected: bare,
  RunnerLoading: {
    type: 'object', required: ['layersLoaded', 'totalLayers'],
    properties: { layersLoaded: count, totalLayers: count }
  },
  RunnerLoaded: bare,
  RunnerWarmingUp: bare,
  RunnerReady: bare,
  RunnerRunning: bare,
  RunnerShuttingDown: bare,
  RunnerShutdown: bare,
  RunnerFailed: {
    type: 'object', required: ['errorMessage'],
    properties: { errorMessage: text, errorCode: text, nextTryAt: text }
  }
})

const failure = exactly({
  instanceId: text,
  modelId: text,
  errorCode: text,
  errorMessage: text,
  affectedNodeIds: strings,
  recordedAt: text
})
/** Why an instance cannot serve, as /state shows it. */
export type InstanceFailure = FromSchema<typeof failure>

export const sections = {
  instances: {
    writer: 'master',
    summary: 'Instance id to the tagged instance: which node is to run what.',
    value: tagged({ RingInstance: ringInstance, LlamaRpcInstance: llamaRpcInstance })
  },
  runners: { writer: 'node', summary: 'Runner id to its status, a one-key object.', value: status },
  failures: { writer: 'node', summary: 'The newest failures of instances on this node.', value: failure }
} as const satisfies Record<string, SectionDecl>
