import { kernelManifest } from '../plugins/kernel-manifest.js'
import type { Manifest } from '../api/plugin.js'
import type { JsonSchema } from '../api/schema.js'

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const
const nullableText = { type: ['string', 'null'] } as const
const mapOf = (value: JsonSchema): JsonSchema => ({ type: 'object', additionalProperties: value })
const object = (properties: Record<string, JsonSchema>): JsonSchema =>
  ({ type: 'object', required: Object.keys(properties), properties })
const anything = { type: 'object' } as const

const reason = object({ code: text, severity: { enum: ['warn', 'error'] }, message: text, remediation: text })
const identity = {
  type: 'object', required: ['friendlyName', 'svcVersion', 'apiUrl'],
  properties: { friendlyName: nullableText, svcVersion: text, apiUrl: nullableText }
} as const

/** Schemas of the kernel's keys, for typed readers of /state. */
const values: Record<keyof typeof kernelManifest.state, JsonSchema> = {
  sessionId: text,
  masterNodeId: nullableText,
  localNodeId: text,
  instances: mapOf(anything),
  runners: mapOf(anything),
  downloads: mapOf({}),
  tasks: mapOf(anything),
  lastSeen: mapOf({ ...text, format: 'date-time' }),
  topology: object({ nodes: { type: 'array', items: text }, connections: mapOf(anything) }),
  tracingEnabled: { type: 'boolean' },
  lastEventAppliedIdx: { type: 'integer' },
  nodeIdentities: mapOf(identity),
  node_identities: mapOf(identity),
  nodeMemory: mapOf(anything),
  nodeSystem: mapOf(anything),
  nodeDisk: mapOf(anything),
  nodeNetwork: mapOf({}),
  nodeHealth: mapOf(object({
    level: { enum: ['ok', 'warn', 'error'] }, reasons: { type: 'array', items: reason }
  })),
  nodeResources: mapOf(anything),
  nodeCapabilities: mapOf({ type: 'array', items: text }),
  instanceFailures: { type: 'array', items: anything },
  cluster: object({
    term: count, quorum: { enum: ['ok', 'lost'] }, stale: { type: 'boolean' }, partition: { type: 'boolean' },
    knownNodes: count, liveNodes: count
  })
}

/** Reply of GET /state: the state now, or with `at` an earlier one. */
export const stateReply = (plugins: readonly Manifest[]): JsonSchema => ({
  anyOf: [stateSchema(plugins), object({
    at: { type: ['string', 'integer'] }, snapshot: anything, state: anything, derived: anything,
    events: { type: ['array', 'null'] }, more: { type: 'boolean' }, gaps: { type: 'array' }
  })]
})

/** The state now: the kernel's keys, and those that plugins add. */
function stateSchema (plugins: readonly Manifest[]): JsonSchema {
  const told = Object.assign({}, kernelManifest.state, ...plugins.map(({ state }) => state)) as
    Record<string, string>
  const shapes: Readonly<Record<string, JsonSchema>> = values
  return {
    type: 'object', required: Object.keys(values),
    properties: Object.fromEntries(Object.entries(told).map(([key, description]) =>
      [key, { ...shapes[key], description }]))
  }
}
