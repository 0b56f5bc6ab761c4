import type { FromSchema, ModelCard, SectionDecl } from '../../../kernel/index.js'
import { cardSchema } from '../cards/schema.js'
import { exactly } from '../declarations.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const strings = { type: 'array', items: text } as const

/** The request behind a placement, so that a lost instance can be placed again. */
export const placement = exactly({
  /**
   * Placed by an explicit request, `plugins.placement.autoplace`, or an inference request for an unplaced
   * model.
   */
  origin: { enum: ['request', 'autoplace', 'on_demand'] },
  sharding: { enum: ['Pipeline', 'Tensor'] },
  instanceMeta: { enum: ['Ring', 'LlamaRpc'] },
  minNodes: { type: 'integer', minimum: 1 },
  /** Install ids of excluded nodes, and of nodes on which the model has failed since. */
  excluded: strings,
  failedOn: strings,
  /** Unloaded after this many seconds without a request; null for never. */
  ttlSeconds: { type: ['number', 'null'], exclusiveMinimum: 0 },
  /** The instance it replaced; null for the first one. */
  replaces: { type: ['string', 'null'] }
}, {
  /** The purpose for which a plugin requires the instance; absent for all others. */
  systemRole: text,
  /** Requested context in tokens; absent for the default. */
  contextLength: count,
  /** Requested parallel answers; absent for as many as fit in memory. */
  slots: { type: 'integer', minimum: 1 },
  chatTemplate: text,
  /** The instance on a drained node that ends once this one serves; absent otherwise. */
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
 * The part of a model that one runner holds; layers are half open. `gpuLayers`: layers on each GPU of the
 * node, in the node's order, if it uses several devices; the rest are on its CPU.
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

/** Schema of a one-key object; the key names the variant. */
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
  placement,
  /** Contexts for parallel answers; absent for engines without them and in older instances. */
  slots: { type: 'integer', minimum: 1 },
  /**
   * Manifest digest of the content that its runners load; absent for bundled models, or if it was unknown.
   */
  modelDigest: text,
  /**
   * ISO-8601. Once set, the instance accepts no new requests and ends with its last one, at this time at the
   * latest.
   */
  drainUntil: text
} as const
const ringInstance = exactly(ringFields, ringOptional)
const llamaRpcInstance = exactly({
  ...ringFields,
  driverNode: text,
  /** Links on which the driver reaches its donors: by node id, in rank order. */
  donorEndpoints: hosts
}, ringOptional)

type Hosts = Record<string, { ip: string, port: number }[]>
export type RingInstance = Omit<FromSchema<typeof ringInstance>, 'shardAssignments' | 'hostsByNode'> & {
  shardAssignments: {
    modelId: string, runnerToShard: Record<string, Shard>, nodeToRunner: Record<string, string>
  }
  hostsByNode: Hosts
}
/** The driver rank runs llama.cpp's server with the whole model; the others lend it memory and compute. */
export type LlamaRpcInstance = RingInstance & { driverNode: string, donorEndpoints: Hosts }
/** An instance in the control document and /state: one key, which names the transport between its ranks. */
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
export type InstanceFailure = FromSchema<typeof failure>

export const sections = {
  instances: {
    writer: 'master',
    summary: 'Instances by id: which node runs which model.',
    value: tagged({ RingInstance: ringInstance, LlamaRpcInstance: llamaRpcInstance })
  },
  runners: { writer: 'node', summary: 'Runner status by runner id, a one-key object.', value: status },
  failures: { writer: 'node', summary: 'The newest failures of instances on this node.', value: failure }
} as const satisfies Record<string, SectionDecl>
