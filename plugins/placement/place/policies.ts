import { closedObject, type FromSchema } from '../../../kernel/index.js'

const REPLICAS_MAX = 32
export const IDLE_SECONDS = 300

const whole = <const M extends number>(minimum: M, maximum: number, description: string) =>
  ({ type: 'integer', minimum, maximum, description }) as const
const replicas = closedObject({
  min: whole(0, REPLICAS_MAX, 'instances to keep running if they fit'),
  max: whole(1, REPLICAS_MAX, 'instances to run at most'),
  target_open: whole(1, 4096, 'open requests per instance; with more for 10 s another instance is placed'),
  idle_seconds: whole(1, 604_800, 'time after which an instance without need is removed; default: 300')
}, ['min', 'max', 'target_open'])
const demand = {
  type: 'boolean', description: 'whether a request places the model; default: plugins.placement.on_demand'
} as const

const lowestMax = (minimum: number) => ({
  if: { type: 'object', required: ['min'], properties: { min: { const: minimum } } },
  then: { type: 'object', properties: { max: { type: 'integer', minimum } } }
})
/** A policy in svc.yaml; for each `min`, the schema requires a `max` that is not lower. */
export const filePolicy = closedObject({
  demand, replicas: { ...replicas, allOf: Array.from({ length: REPLICAS_MAX }, (_, i) => lowestMax(i + 1)) }
}, [])

/** Changes of a policy; null removes a field. */
export const policyPatch = closedObject({
  demand: { ...demand, type: ['boolean', 'null'] }, replicas: { ...replicas, type: ['object', 'null'] }
}, [])

const from = { enum: ['svc.yaml', 'request'] } as const
export const storedPolicy = closedObject({ demand, replicas, from }, ['from'])
export type StoredPolicy = FromSchema<typeof storedPolicy>
export type ReplicaPolicy = FromSchema<typeof replicas>

/** The policy as text for people. */
export function policyText ({ demand: loads, replicas: some, from }: StoredPolicy): string {
  const rules = [
    some && `${some.min} to ${some.max} instances, one more above ${some.target_open} open requests each, ` +
    `one less after ${some.idle_seconds ?? IDLE_SECONDS} s`,
    loads === undefined ? undefined : `requests ${loads ? 'place' : 'do not place'} it`
  ].filter(Boolean)
  const source = from === 'request' ? 'set by request' : 'from svc.yaml of the master'
  return [...rules, rules.length > 0 ? source : 'none is set; that of svc.yaml applies'].join('; ')
}
