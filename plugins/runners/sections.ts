import type { SectionDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const map = { type: 'object' } as const

const strings = { type: 'array', items: text } as const

const placement = {
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
        runnerToShard: map,
        nodeToRunner: { type: 'object', additionalProperties: text }
      }
    },
    hostsByNode: map,
    placement,
    drainUntil: text
  }
} as const

const llamaRpcInstance = {
  ...ringInstance,
  required: [...ringInstance.required, 'driverNode', 'donorEndpoints'],
  properties: { ...ringInstance.properties, driverNode: text, donorEndpoints: map }
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
    value: { type: 'object', minProperties: 1, maxProperties: 1 }
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
