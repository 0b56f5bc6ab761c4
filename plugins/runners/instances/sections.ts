import { cardSchema } from '../../../kernel/index.js'
import type { SectionDecl } from '../../../kernel/index.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const

const strings = { type: 'array', items: text } as const

/** What was asked for when an instance was placed. */
export const placement = {
  type: 'object',
  additionalProperties: false,
  required: [
    'origin', 'sharding', 'instanceMeta', 'minNodes', 'excluded', 'failedOn', 'ttlSeconds', 'replaces'
  ],
  properties: {
    origin: { enum: ['request', 'autoplace', 'on_demand'] },
    sharding: { enum: ['Pipeline', 'Tensor'] },
    instanceMeta: { enum: ['Ring', 'LlamaRpc'] },
    minNodes: { type: 'integer', minimum: 1 },
    excluded: strings,
    failedOn: strings,
    ttlSeconds: { type: ['number', 'null'], exclusiveMinimum: 0 },
    replaces: { type: ['string', 'null'] }
  }
} as const

const { totalBytes: _, files: __, ...cardFields } = cardSchema.properties
const size = {
  type: 'object', additionalProperties: false, required: ['inBytes'], properties: { inBytes: count }
} as const

const shardBody = {
  type: 'object',
  additionalProperties: false,
  required: ['modelCard', 'deviceRank', 'worldSize', 'startLayer', 'endLayer', 'nLayers'],
  properties: {
    modelCard: {
      type: 'object',
      required: ['modelId', 'engine', 'storageSize', 'files'],
      properties: {
        ...cardFields,
        storageSize: size,
        files: {
          type: 'array',
          items: {
            type: 'object', required: ['path', 'role', 'size'], properties: { path: text, role: text, size }
          }
        }
      }
    },
    deviceRank: count,
    worldSize: count,
    startLayer: count,
    endLayer: count,
    nLayers: count
  }
} as const

const shard = {
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  maxProperties: 1,
  properties: { PipelineShardMetadata: shardBody, TensorShardMetadata: shardBody }
} as const

const hosts = {
  type: 'object',
  additionalProperties: {
    type: 'array',
    items: { type: 'object', required: ['ip', 'port'], properties: { ip: text, port: count } }
  }
} as const

const ringInstance = {
  type: 'object',
  additionalProperties: false,
  required: ['instanceId', 'contextTokenLimit', 'systemRole', 'engine', 'shardAssignments', 'hostsByNode'],
  properties: {
    instanceId: text,
    contextTokenLimit: { type: 'integer', minimum: 0 },
    systemRole: { type: ['string', 'null'] },
    engine: text,
    shardAssignments: {
      type: 'object',
      additionalProperties: false,
      required: ['modelId', 'runnerToShard', 'nodeToRunner'],
      properties: {
        modelId: text,
        runnerToShard: { type: 'object', additionalProperties: shard },
        nodeToRunner: { type: 'object', additionalProperties: text }
      }
    },
    hostsByNode: hosts,
    placement,
    modelDigest: text,
    drainUntil: text
  }
} as const

const llamaRpcInstance = {
  ...ringInstance,
  required: [...ringInstance.required, 'driverNode', 'donorEndpoints'],
  properties: { ...ringInstance.properties, driverNode: text, donorEndpoints: hosts }
} as const

const bare = { type: 'object' } as const

const statuses = {
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
    type: 'object', required: ['errorMessage'], properties: { errorMessage: text, errorCode: text }
  }
} as const

/** Document sections of this plugin. */
export const sections = {
  instances: {
    writer: 'master',
    summary: 'Instance id to the tagged instance: which node is to run what.',
    value: {
      type: 'object',
      additionalProperties: false,
      minProperties: 1,
      maxProperties: 1,
      properties: { RingInstance: ringInstance, LlamaRpcInstance: llamaRpcInstance }
    }
  },
  runners: {
    writer: 'node',
    summary: 'Runner id to its status, a one-key object.',
    value: {
      type: 'object', additionalProperties: false, minProperties: 1, maxProperties: 1, properties: statuses
    }
  },
  failures: {
    writer: 'node',
    summary: 'The newest failures of instances on this node.',
    value: {
      type: 'object',
      additionalProperties: false,
      required: ['instanceId', 'modelId', 'errorCode', 'errorMessage', 'affectedNodeIds', 'recordedAt'],
      properties: {
        instanceId: text,
        modelId: text,
        errorCode: text,
        errorMessage: text,
        affectedNodeIds: strings,
        recordedAt: text
      }
    }
  }
} as const satisfies Record<string, SectionDecl>
