import { isDeepStrictEqual } from 'node:util'
import type { FromSchema, Section } from '../../../kernel/index.js'

const REPLICAS_MAX = 32

export const replicas = {
  type: 'object', additionalProperties: false, required: ['min', 'max', 'target_open'],
  properties: {
    min: {
      type: 'integer', minimum: 0, maximum: REPLICAS_MAX, description: 'instances to keep running if they fit'
    },
    max: { type: 'integer', minimum: 1, maximum: REPLICAS_MAX, description: 'instances to run at most' },
    target_open: {
      type: 'integer', minimum: 1, maximum: 4096,
      description: 'open requests per instance; with more for 10 s another instance is placed'
    },
    idle_seconds: {
      type: 'integer', minimum: 1, maximum: 604_800,
      description: 'time after which an instance that is not needed is removed; default: 300'
    }
  }
} as const

export const demand = {
  type: 'boolean', description: 'whether a request places the model; default: plugins.placement.on_demand'
} as const

/** A model's policy in svc.yaml, where the schema also requires that `max` is not below `min`. */
export const policyInFile = {
  type: 'object', additionalProperties: false,
  properties: {
    demand,
    replicas: {
      ...replicas,
      allOf: Array.from({ length: REPLICAS_MAX }, (_, i) => i + 1).map((minimum) => ({
        if: { type: 'object', required: ['min'], properties: { min: { const: minimum } } },
        then: { type: 'object', properties: { max: { type: 'integer', minimum } } }
      }))
    }
  }
} as const

export const storedPolicy = {
  type: 'object', additionalProperties: false, required: ['from'],
  properties: { demand, replicas, from: { enum: ['svc.yaml', 'request'] } }
} as const
export type StoredPolicy = FromSchema<typeof storedPolicy>
export type ReplicaPolicy = FromSchema<typeof replicas>
export type FilePolicies = Readonly<Record<string, FromSchema<typeof policyInFile>>>

/** The policies of the master's svc.yaml to store, by model; an empty one is to be removed. */
export function unstored (file: FilePolicies, stored: Section<StoredPolicy>): [string, FilePolicies[string]][] {
  const old = new Map([...stored.entries()].map(({ key, value: { from, ...policy } }) =>
    [key, { from, policy }]))
  return [
    ...Object.entries(file).filter(([modelId, policy]) =>
      old.get(modelId)?.from !== 'request' && !isDeepStrictEqual(old.get(modelId)?.policy, policy)),
    ...[...old].filter(([modelId, { from }]) => from === 'svc.yaml' && !Object.hasOwn(file, modelId))
      .map(([modelId]): [string, FilePolicies[string]] => [modelId, {}])
  ]
}

/** The policy as text for people. */
export function policyText ({ demand: loads, replicas: some, from }: StoredPolicy): string {
  const rules = [
    ...some === undefined ? [] : [`${some.min} to ${some.max} instances, one more above ` +
      `${some.target_open} open requests each, one less after ${some.idle_seconds ?? IDLE_SECONDS} s`],
    ...loads === undefined ? [] : [`requests ${loads ? 'place' : 'do not place'} it`]
  ]
  return `${rules.join('; ') || 'none'} (${from === 'request' ? 'set by request' : 'svc.yaml of the master'})`
}

export const IDLE_SECONDS = 300
