import { openObject, type JsonSchema, type Manifest } from '../../kernel/index.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const nullableText = { type: ['string', 'null'] } as const
const mapOf = (value: JsonSchema): JsonSchema => ({ type: 'object', additionalProperties: value })
const anything = { type: 'object' } as const

const reason = openObject({
  code: text, severity: { enum: ['warn', 'error'] }, message: text, remediation: text
})
const identity = openObject({
  friendlyName: nullableText, modelId: text, chipId: text, osVersion: text, svcVersion: text,
  nodeInstallId: text, apiUrl: nullableText
})
const number = { type: ['number', 'null'] } as const
const bytes = openObject({ inBytes: { type: 'number' } })
const accelerator = openObject({
  vendor: text, name: text, utilizationRatio: number, vramTotalBytes: number, vramUsedBytes: number,
  powerWatts: number, temperatureCelsius: number
})
const system = openObject({
  gpuUsage: number, temp: number, sysPower: number, pcpuUsage: number,
  accelerators: { type: 'array', items: accelerator }
}, ['gpuUsage', 'temp', 'sysPower', 'pcpuUsage'])
const edges = {
  type: 'array', items: openObject({ session: { type: 'boolean' }, rttMs: number, bytesPerSecond: number })
} as const
const card = openObject({ modelId: text, tasks: { type: 'array', items: text }, engine: text })
const instance = openObject({
  instanceId: text, contextTokenLimit: count, engine: text,
  shardAssignments: openObject({
    modelId: text, runnerToShard: mapOf(mapOf(openObject({ modelCard: card }))), nodeToRunner: mapOf(text)
  })
})
const task = openObject({ instanceId: nullableText, status: text })
const failure = openObject({
  instanceId: text, modelId: text, errorCode: text, errorMessage: text,
  affectedNodeIds: { type: 'array', items: text }, recordedAt: text
})

/** Schemas of the kernel's state keys. Tagged records, whose only key is the tag, are declared as maps. */
const values: Readonly<Record<string, JsonSchema>> = {
  sessionId: text, masterNodeId: nullableText, localNodeId: text, instances: mapOf(mapOf(instance)),
  runners: mapOf(mapOf(anything)), downloads: mapOf({ type: 'array', items: mapOf(anything) }),
  tasks: mapOf(mapOf(task)), lastSeen: mapOf({ ...text, format: 'date-time' }),
  topology: openObject({ nodes: { type: 'array', items: text }, connections: mapOf(mapOf(edges)) }),
  tracingEnabled: { type: 'boolean' }, lastEventAppliedIdx: { type: 'integer' },
  nodeIdentities: mapOf(identity), node_identities: mapOf(identity),
  nodeMemory: mapOf(openObject({ ramTotal: bytes, ramAvailable: bytes })), nodeSystem: mapOf(system),
  nodeDisk: mapOf(openObject({ total: bytes, available: bytes })), nodeNetwork: mapOf({}),
  nodeHealth: mapOf(openObject({
    level: { enum: ['ok', 'warn', 'error'] }, reasons: { type: 'array', items: reason }
  })),
  nodeResources: mapOf(openObject({ backends: { type: 'array', items: text }, participation: text })),
  nodeCapabilities: mapOf({ type: 'array', items: text }),
  instanceFailures: { type: 'array', items: failure },
  cluster: openObject({
    term: count, quorum: { enum: ['ok', 'lost'] }, stale: { type: 'boolean' }, partition: { type: 'boolean' },
    knownNodes: count, liveNodes: count
  })
}

/** Reply to GET /state: the current state, or with `at` an earlier one. */
export const stateReply = (manifests: readonly Manifest[]): JsonSchema => ({
  anyOf: [stateSchema(manifests), openObject({
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
