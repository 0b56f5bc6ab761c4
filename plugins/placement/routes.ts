import type { RouteDecl } from '../../kernel/index.js'
import { REFUSALS } from './planner/types.js'
import { policyPatch, storedPolicy } from './place/policies.js'

const object = <const R extends readonly string[], const P extends object>(required: R, properties: P) =>
  ({ type: 'object', additionalProperties: false, required, properties } as const)
/** JSON Schema of an object that has exactly one of the given properties. */
const oneOf = <const P extends object>(properties: P) =>
  ({ type: 'object', additionalProperties: false, minProperties: 1, maxProperties: 1, properties } as const)

const text = { type: 'string' } as const
const filled = { type: 'string', minLength: 1 } as const
const textOrNull = { type: ['string', 'null'] } as const
const objectOrNull = { type: ['object', 'null'] } as const
const uuid = { type: 'string', format: 'uuid' } as const
const modelId = { type: 'string', minLength: 1, maxLength: 512 } as const
const sharding = { enum: ['Pipeline', 'Tensor'] } as const
const instanceMeta = {
  enum: ['Ring', 'LlamaRpc'], description: 'how its parts communicate; default: as its engine does'
} as const
const minNodes = { type: 'integer', minimum: 1, maximum: 1024 } as const
const contextLength = {
  type: 'integer', minimum: 2, maximum: 2 ** 31,
  description: 'context length in tokens, at most that of the model; default: 2048 to 32768, by free memory'
} as const
const slots = {
  type: 'integer', minimum: 1, maximum: 256,
  description: 'concurrent requests, each with that context; default: as many as fit in memory'
} as const
const seconds = { type: 'integer', minimum: 1, maximum: 86_400 } as const
const nodeRefs = {
  type: 'array', uniqueItems: true, maxItems: 256, items: { type: 'string', minLength: 1, maxLength: 128 }
} as const
/** Node references in a query; a value may contain several, separated by commas. */
const listedRefs = { ...nodeRefs, items: { ...nodeRefs.items, maxLength: 8192 } } as const
const excluded = {
  ...listedRefs, description: 'node ids, install ids or names, also comma-separated; unknown ones are ignored'
} as const
const tagged = { type: 'object', minProperties: 1, maxProperties: 1 } as const

const refusals =
  ['model_unknown', 'no_source', 'insufficient_disk', 'readings_disabled', ...REFUSALS] as const
const waiting = ['not_ready_yet', 'instance_failed', 'instance_lost'] as const
const commanding = ['no_master', 'no_quorum', 'session_changed'] as const

const placed = object(['message', 'command_id', 'instance_id', 'model_card'],
  { message: text, command_id: text, instance_id: text, model_card: { type: 'object' } })

const place = {
  // No route deadline, because with `wait` the reply comes when the model is ready or after timeout_seconds.
  method: 'POST', url: '/place_instance', authority: 'cluster:write', stream: true,
  summary: 'Plans and places a model; with `wait`, responds when it is ready.',
  body: object(['model_id'], {
    model_id: modelId, sharding, instance_meta: instanceMeta, min_nodes: minNodes,
    context_length: contextLength, slots,
    chat_template: {
      type: 'string', minLength: 1, maxLength: 65_536,
      description: 'a Jinja chat template, instead of the one in a GGUF model'
    },
    engine: {
      type: 'string', minLength: 1, maxLength: 64,
      description: 'the program, such as vllm, for models that several programs can run'
    },
    excluded_nodes: { ...nodeRefs, description: 'node ids, install ids or names; unknown ones are ignored' },
    excluded_node_ids: { ...nodeRefs, description: 'alias of excluded_nodes' },
    ttl_seconds: {
      type: ['integer', 'null'], minimum: 1, maximum: 604_800,
      description: 'idle time after which it is unloaded; null for never'
    },
    wait: { type: 'boolean' },
    timeout_seconds: { ...seconds, description: 'longest wait until it is ready; default: 600' },
    make_room: {
      type: 'boolean',
      description: 'unloads idle instances with a time to live if memory is short, and waits for those in use'
    },
    force: { type: 'boolean', description: 'skips the memory check; recorded in the event log' }
  }),
  reply: placed,
  errors: [...refusals, ...waiting, ...commanding]
} as const satisfies RouteDecl

const count = { type: 'integer', minimum: 0 } as const
const shardBody = object(
  ['modelCard', 'deviceRank', 'worldSize', 'startLayer', 'endLayer', 'nLayers'], {
    modelCard: { type: 'object', required: ['modelId'], properties: { modelId } },
    deviceRank: count, worldSize: { type: 'integer', minimum: 1 },
    startLayer: count, endLayer: count, nLayers: count
  })
const someOf = { type: 'object', minProperties: 1, maxProperties: 1024 } as const
const ringFields = {
  instanceId: uuid, contextTokenLimit: count, slots, systemRole: textOrNull, engine: filled,
  shardAssignments: object(['modelId', 'runnerToShard', 'nodeToRunner'], {
    modelId,
    runnerToShard: {
      ...someOf, propertyNames: { format: 'uuid' },
      additionalProperties: oneOf({ PipelineShardMetadata: shardBody, TensorShardMetadata: shardBody })
    },
    nodeToRunner: { ...someOf, additionalProperties: uuid }
  }),
  hostsByNode: { ...objectOrNull, description: 'filled in by the node' },
  placement: { type: 'object', description: 'as in /state; the node sets its own' },
  modelDigest: { ...text, description: 'as in /state; the node sets its own' },
  drainUntil: { ...text, description: 'as in /state; the node omits it' }
} as const
const ringRequired = [
  'instanceId', 'contextTokenLimit', 'systemRole', 'engine', 'shardAssignments', 'hostsByNode'
] as const
const star = object([...ringRequired, 'driverNode', 'donorEndpoints'], {
  ...ringFields, driverNode: filled, donorEndpoints: { ...objectOrNull, description: 'filled in by the node' }
})

const create = {
  method: 'POST', url: '/instance', authority: 'cluster:write',
  summary: 'Places a given instance, such as one of GET /instance/placement.',
  body: object(['instance'], {
    instance: oneOf({ RingInstance: object(ringRequired, ringFields), LlamaRpcInstance: star })
  }),
  reply: placed,
  errors: ['invalid_request', 'node_not_found', ...refusals, ...commanding]
} as const satisfies RouteDecl

const placement = {
  method: 'GET', url: '/instance/placement', authority: 'read',
  summary: 'Returns the instance that a placement would create; places nothing.',
  query: object(['model_id'], {
    model_id: modelId, sharding: { ...sharding, default: 'Pipeline' },
    instance_meta: instanceMeta, min_nodes: { ...minNodes, default: 1 }, context_length: contextLength,
    slots, excluded_node_ids: excluded, excluded_nodes: excluded
  }),
  reply: tagged,
  errors: refusals
} as const satisfies RouteDecl

const bytes = { type: 'integer' } as const
const sums = { shareBytes: bytes, neededBytes: bytes, usableBytes: bytes } as const
const open = (required: string[], properties: Record<string, object>) =>
  ({ type: 'object', required, properties }) as const
const nodeSum = open(['nodeId'], {
  nodeId: text, name: text, backend: text, startLayer: bytes, endLayer: bytes, ...sums,
  cacheBytes: bytes, bufferBytes: bytes, fixedBytes: bytes, freeBytes: bytes, limitBytes: bytes,
  reservedBytes: bytes,
  memories: { type: 'array', items: open(['memory', 'layers', ...Object.keys(sums)],
    { memory: { enum: ['vram', 'ram'] }, layers: bytes, ...sums }) }
})
const nodeIds = { type: 'array', items: text } as const
const change = (kind: string, properties: Record<string, object>) =>
  open(['kind', 'text', ...Object.keys(properties)], { kind: { const: kind }, text, ...properties })
const suggestion = {
  description: 'a change after which the same request fits', anyOf: [
    change('sharding', { sharding }), change('instance_meta', { instanceMeta: text }),
    change('context_length', { contextLength: bytes }), change('slots', { slots: bytes }),
    change('min_nodes', { minNodes: bytes }), change('free', { nodeId: text, bytes }),
    change('stop', { instanceId: text }), change('include', { nodeIds }), change('undrain', { nodeIds })
  ]
} as const
const details = {
  type: ['object', 'null'],
  properties: {
    why: text, stagedBytes: bytes, ranks: { type: 'array', items: nodeSum },
    nodes: { type: 'array', items: nodeSum }, suggestions: { type: 'array', items: suggestion }
  }
} as const

const preview = object([
  'model_id', 'sharding', 'instance_meta', 'min_nodes', 'instance', 'memory_delta_by_node', 'error', 'reason',
  'details'
], {
  model_id: text, sharding, instance_meta: { enum: instanceMeta.enum }, min_nodes: minNodes,
  instance: objectOrNull, memory_delta_by_node: objectOrNull, error: textOrNull, reason: textOrNull, details
})

const previews = {
  method: 'GET', url: '/instance/previews', authority: 'read',
  summary: 'Lists every way to place a model, with the instance or the refusal.',
  query: object(['model_id'], {
    model_id: modelId,
    node_ids: { ...listedRefs, default: [], description: 'only these nodes; default: all' },
    context_length: contextLength, slots, excluded_node_ids: excluded, excluded_nodes: excluded
  }),
  reply: object(['previews', 'unknown_nodes'], {
    unknown_nodes: { type: 'array', items: text, description: 'unknown nodes of the query' },
    previews: { type: 'array', items: preview }
  }),
  errors: ['model_unknown']
} as const satisfies RouteDecl

const params = object(['instance_id'], { instance_id: { type: 'string', minLength: 1, maxLength: 128 } })

const get = {
  method: 'GET', url: '/instance/:instance_id', authority: 'read', summary: 'Returns an instance.',
  params, reply: tagged, errors: ['instance_not_found']
} as const satisfies RouteDecl

const remove = {
  method: 'DELETE', url: '/instance/:instance_id', authority: 'cluster:write', audit: 'best-effort',
  summary: 'Stops an instance immediately, or with drain_seconds after its open requests.', params,
  query: object([], {
    drain_seconds: {
      type: 'integer', minimum: 0, maximum: 3600,
      description: 'grace period for open requests; default: plugins.placement.drain_seconds'
    },
    unload: { type: 'boolean', default: false, description: 'requests may place the model again (on_demand)' }
  }),
  reply: object(['message', 'command_id', 'instance_id'],
    { message: text, command_id: text, instance_id: text }),
  errors: ['instance_not_found', ...commanding]
} as const satisfies RouteDecl

const nodeParams = object(['node'], {
  node: { type: 'string', minLength: 1, maxLength: 128, description: 'node id, install id or name' }
})
const drainedReply = object(['message', 'node_id', 'drained', 'changed', 'instances'], {
  message: text, node_id: text, drained: { type: 'boolean' },
  changed: { type: 'boolean', description: 'false if it was so already' },
  instances: { type: 'array', items: text, description: 'ids of the instances on the node' }
})

const drain = {
  method: 'PUT', url: '/nodes/:node/drain', authority: 'cluster:write',
  summary: 'Drains a node: its instances move to other nodes and it gets no new ones; it stays a member.',
  params: nodeParams, reply: drainedReply, errors: ['node_not_found', ...commanding]
} as const satisfies RouteDecl

const undrain = {
  method: 'DELETE', url: '/nodes/:node/drain', authority: 'cluster:write',
  summary: 'Lets a drained node run models again.',
  params: nodeParams, reply: drainedReply, errors: ['node_not_found', ...commanding]
} as const satisfies RouteDecl

const policy = {
  method: 'PATCH', url: '/models/:model_id/policy', authority: 'cluster:write',
  summary: 'Changes how many instances of a model run, and whether requests place it; null removes a field.',
  params: object(['model_id'], { model_id: modelId }), body: policyPatch,
  reply: object(['message', 'model_id', 'policy'], { message: text, model_id: text, policy: storedPolicy }),
  errors: ['model_unknown', 'info_pending', ...commanding]
} as const satisfies RouteDecl

const awaitReady = {
  method: 'GET', url: '/instance/await', authority: 'read', stream: true,
  summary: 'Server-sent events: one when an instance of the model is ready, or on timeout.',
  query: object(['model_id'], { model_id: modelId, timeout_seconds: { ...seconds, default: 600 } }),
  produces: 'text/event-stream'
} as const satisfies RouteDecl

export const routes = {
  place, create, placement, previews, get, remove, drain, undrain, policy, await: awaitReady
} as const satisfies Record<string, RouteDecl>
