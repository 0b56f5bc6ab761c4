import {
  closedObject, openObject, type FromSchema, type ModelCard, type SectionDecl
} from '../../../kernel/index.js'
import { cardSchema } from '../cards/schema.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const strings = { type: 'array', items: text } as const

/** The request behind a placement, stored so that a lost instance can be placed again. */
export const placement = closedObject({
  /**
   * Placed by an explicit request, `plugins.placement.autoplace`, or an inference request for an unplaced
   * model.
   */
  origin: { enum: ['request', 'autoplace', 'on_demand'] },
  sharding: { enum: ['Pipeline', 'Tensor'] },
  instanceMeta: { enum: ['Ring', 'LlamaRpc'] },
  minNodes: { type: 'integer', minimum: 1 },
  /** Install ids of excluded nodes, and of nodes on which the model has since failed. */
  excluded: strings,
  failedOn: strings,
  /** Seconds without a request after which the instance is unloaded; null for never. */
  ttlSeconds: { type: ['number', 'null'], exclusiveMinimum: 0 },
  /** Id of the lost instance that this instance replaced; null for a first placement. */
  replaces: { type: ['string', 'null'] },
  /** The purpose for which a plugin requires the instance; absent for all others. */
  systemRole: text,
  /** Requested context length in tokens; absent for the default. */
  contextLength: count,
  /** Requested number of parallel answers; absent for as many as fit in memory. */
  slots: { type: 'integer', minimum: 1 },
  chatTemplate: text,
  /** Name of the program that runs the model, of an engine with several. */
  engine: text,
  /** Id of the instance on a draining node that this one replaces and that ends once this one serves. */
  moves: text,
  /** When the policy of the model added the instance, ISO 8601; absent for all others. */
  replica: text
}, ['origin', 'sharding', 'instanceMeta', 'minNodes', 'excluded', 'failedOn', 'ttlSeconds', 'replaces'])
export type PlacementIntent = FromSchema<typeof placement>

const { totalBytes: _, files: __, ...cardFields } = cardSchema.properties
const size = closedObject({ inBytes: count })
const file = openObject({ path: text, role: text, size })

/** A model card as in /state, with byte counts as `{inBytes}`. */
export type StateCard = Omit<ModelCard, 'totalBytes' | 'files'> & {
  storageSize: { inBytes: number }
  files: { path: string, role: string, size: { inBytes: number }, sha256?: string }[]
}

/**
 * The part of a model that one runner holds, with a half-open layer range. `gpuLayers`: layers on each GPU of
 * the node, in the node's GPU order, if it uses several devices; the remaining layers are on the CPU.
 */
const shardBody = closedObject({
  modelCard: openObject({
    ...cardFields, storageSize: size, files: { type: 'array', items: file }
  }, ['modelId', 'engine', 'storageSize', 'files']),
  deviceRank: count, worldSize: count, startLayer: count, endLayer: count, nLayers: count,
  gpuLayers: { type: 'array', items: count }
}, ['modelCard', 'deviceRank', 'worldSize', 'startLayer', 'endLayer', 'nLayers'])
export type ShardBody = Omit<FromSchema<typeof shardBody>, 'modelCard'> & { modelCard: StateCard }
export type Shard = { PipelineShardMetadata: ShardBody } | { TensorShardMetadata: ShardBody }

/** Schema of a one-key object; the key names the variant. */
const tagged = <const P extends Record<string, unknown>>(properties: P) =>
  ({ type: 'object', additionalProperties: false, minProperties: 1, maxProperties: 1, properties }) as const

const shard = tagged({ PipelineShardMetadata: shardBody, TensorShardMetadata: shardBody })
const host = openObject({ ip: text, port: count })
const hosts = { type: 'object', additionalProperties: { type: 'array', items: host } } as const

const ringFields = {
  instanceId: text,
  contextTokenLimit: count,
  systemRole: { type: ['string', 'null'] },
  engine: text,
  shardAssignments: closedObject({
    modelId: text,
    runnerToShard: { type: 'object', additionalProperties: shard },
    nodeToRunner: { type: 'object', additionalProperties: text }
  }),
  hostsByNode: hosts
} as const
const ringOptional = {
  placement,
  /** Number of contexts for parallel answers; absent for engines without slots and in older instances. */
  slots: { type: 'integer', minimum: 1 },
  /** Manifest digest of the content that the runners load; absent for bundled models or if unknown. */
  modelDigest: text,
  /**
   * ISO 8601. Once this is set, the instance accepts no new requests and ends with its last open request,
   * or at this time at the latest.
   */
  drainUntil: text
} as const
const ringRequired = Object.keys(ringFields) as (keyof typeof ringFields)[]
const ringInstance = closedObject({ ...ringFields, ...ringOptional }, ringRequired)
const llamaRpcInstance = closedObject({
  ...ringFields,
  driverNode: text,
  /** Addresses at which the driver reaches its donors: by node id, in rank order. */
  donorEndpoints: hosts,
  ...ringOptional
}, [...ringRequired, 'driverNode', 'donorEndpoints'])

type Hosts = Record<string, { ip: string, port: number }[]>
export type RingInstance = Omit<FromSchema<typeof ringInstance>, 'shardAssignments' | 'hostsByNode'> & {
  shardAssignments: {
    modelId: string, runnerToShard: Record<string, Shard>, nodeToRunner: Record<string, string>
  }
  hostsByNode: Hosts
}
/** The driver rank runs llama.cpp's server with the whole model; other ranks lend it memory and compute. */
export type LlamaRpcInstance = RingInstance & { driverNode: string, donorEndpoints: Hosts }
/** An instance in the control document and /state; its one key names the transport between the ranks. */
export type Instance = { RingInstance: RingInstance } | { LlamaRpcInstance: LlamaRpcInstance }

const bare = { type: 'object' } as const
const status = tagged({
  RunnerIdle: bare,
  RunnerConnecting: bare,
  RunnerConnected: bare,
  RunnerLoading: openObject({ layersLoaded: count, totalLayers: count }),
  RunnerLoaded: bare,
  RunnerWarmingUp: bare,
  RunnerReady: bare,
  RunnerRunning: bare,
  RunnerShuttingDown: bare,
  RunnerShutdown: bare,
  RunnerFailed: openObject({ errorMessage: text, errorCode: text, nextTryAt: text }, ['errorMessage'])
})

const failure = closedObject({
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
