import type { JsonSchema, Manifest } from '../../kernel/index.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const nullableText = { type: ['string', 'null'] } as const
const mapOf = (value: JsonSchema): JsonSchema => ({ type: 'object', additionalProperties: value })
const object = (properties: Record<string, JsonSchema>): JsonSchema =>
  ({ type: 'object', required: Object.keys(properties), properties })
const anything = { type: 'object' } as const

const reason = object({ code: text, severity: { enum: ['warn', 'error'] }, message: text, remediation: text })
const identity = object({
  friendlyName: nullableText, modelId: text, chipId: text, osVersion: text, svcVersion: text,
  nodeInstallId: text, apiUrl: nullableText
})
const number = { type: ['number', 'null'] } as const
const bytes = object({ inBytes: { type: 'number' } })
const accelerator = object({
  vendor: text, name: text, utilizationRatio: number, vramTotalBytes: number, vramUsedBytes: number,
  powerWatts: number, temperatureCelsius: number
})
const system = {
  type: 'object', required: ['gpuUsage', 'temp', 'sysPower', 'pcpuUsage'],
  properties: {
    gpuUsage: number, temp: number, sysPower: number, pcpuUsage: number,
    accelerators: { type: 'array', items: accelerator }
  }
} as const
const edges = {
  type: 'array', items: object({ session: { type: 'boolean' }, rttMs: number, bytesPerSecond: number })
} as const
const card = object({ modelId: text, tasks: { type: 'array', items: text }, engine: text })
const instance = object({
  instanceId: text, contextTokenLimit: count, engine: text,
  shardAssignments: object({
    modelId: text, runnerToShard: mapOf(mapOf(object({ modelCard: card }))), nodeToRunner: mapOf(text)
  })
})
const task = object({ instanceId: nullableText, status: text })
const failure = object({
  instanceId: text, modelId: text, errorCode: text, errorMessage: text,
  affectedNodeIds: { type: 'array', items: text }, recordedAt: text
})

/** Schemas of the kernel's state keys. Tagged records, whose only key is the tag, are declared as maps. */
const values: Readonly<Record<string, JsonSchema>> = {
  sessionId: text, masterNodeId: nullableText, localNodeId: text, instances: mapOf(mapOf(instance)),
  runners: mapOf(mapOf(anything)), downloads: mapOf({ type: 'array', items: mapOf(anything) }),
  tasks: mapOf(mapOf(task)), lastSeen: mapOf({ ...text, format: 'date-time' }),
  topology: object({ nodes: { type: 'array', items: text }, connections: mapOf(mapOf(edges)) }),
  tracingEnabled: { type: 'boolean' }, lastEventAppliedIdx: { type: 'integer' },
  nodeIdentities: mapOf(identity), node_identities: mapOf(identity),
  nodeMemory: mapOf(object({ ramTotal: bytes, ramAvailable: bytes })), nodeSystem: mapOf(system),
  nodeDisk: mapOf(object({ total: bytes, available: bytes })), nodeNetwork: mapOf({}),
  nodeHealth: mapOf(object({
    level: { enum: ['ok', 'warn', 'error'] }, reasons: { type: 'array', items: reason }
  })),
  nodeResources: mapOf(object({ backends: { type: 'array', items: text }, participation: text })),
  nodeCapabilities: mapOf({ type: 'array', items: text }),
  instanceFailures: { type: 'array', items: failure },
  cluster: object({
    term: count, quorum: { enum: ['ok', 'lost'] }, stale: { type: 'boolean' }, partition: { type: 'boolean' },
    knownNodes: count, liveNodes: count
  })
}

/** Reply to GET /state: the current state, or with `at` an earlier one. */
export const stateReply = (manifests: readonly Manifest[]): JsonSchema => ({
  anyOf: [stateSchema(manifests), object({
    at: { type: ['string', 'integer'] }, snapshot: anything, state: anything, derived: anything,
    events: { type: ['array', 'null'] }, more: { type: 'boolean' }, gaps: { type: 'array' }
  })]
})

/** The current state: the kernel's keys, and those of plugins. */
function stateSchema (manifests: readonly Manifest[]): JsonSchema {
  const keys = manifests.flatMap(({ state = {} }) => Object.entries(state))
  return {
    type: 'object', required: Object.keys(values),
    properties: Object.fromEntries(keys.map(([key, description]) => [key, { ...values[key], description }]))
  }
}
