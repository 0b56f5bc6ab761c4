import { bodyOf } from '../../runners/service.js'
import type { Instance, PlacementIntent, RingInstance } from '../../runners/service.js'
import { instanceOf } from '../place/instance.js'
import type { Judge, Situation, Step } from '../keeper/decide.js'
import { AUTOPLACE } from '../place/instance.js'
import type { WaitingEntry } from '../waitlist.js'
import { card, GIB } from './kit.js'

export const NOW = Date.UTC(2026, 0, 1)

/** What was asked for by somebody; `over` changes fields. */
export const intent = (over: Partial<PlacementIntent> = {}): PlacementIntent =>
  ({ ...AUTOPLACE, origin: 'request', ...over })

/** An instance of a model on nodes, named as given; 1 GiB. */
export function instance (
  instanceId: string, nodeIds: string[], over: Partial<RingInstance> = {}, modelId = 'acme/chat',
  bytes = GIB
): Instance {
  const ranks = nodeIds.map((nodeId, i) => ({ nodeId, startLayer: i, endLayer: i + 1 }))
  let n = 0
  const plan = { ranks, sharding: 'Pipeline' } as never
  const newId = (): string => `${instanceId}-r${n++}`
  const made = instanceOf(plan, card(modelId, { totalBytes: bytes }), [], newId)
  return { RingInstance: { ...bodyOf(made), instanceId, placement: intent(), ...over } }
}

/** The same, spread over a driver, the first of the nodes, and its donors. */
export function spread (
  instanceId: string, nodeIds: [string, ...string[]], over: Partial<RingInstance> = {}, modelId?: string
): Instance {
  const body = bodyOf(instance(instanceId, nodeIds, over, modelId))
  return { LlamaRpcInstance: { ...body, driverNode: nodeIds[0], donorEndpoints: {} } }
}

export const entry = (over: Partial<WaitingEntry> = {}): WaitingEntry => ({
  modelId: 'acme/chat', intent: intent(), replaces: null, since: new Date(NOW).toISOString(),
  reason: 'node_lost', message: 'Its node is gone.', ...over
})

/** A situation with nodes n1 to n3 (ids `id-n1`, install ids `install-n1`); `over` changes fields. */
export function situation (over: Partial<Situation> = {}): Situation {
  return {
    now: NOW, instances: [], runners: {}, failures: [], gone: new Set(), cut: new Map(), leaving: new Set(),
    waiting: new Map(), stopped: new Set(), autoplace: [], roles: new Map(),
    nodes: ['n1', 'n2', 'n3'].map((name) => ({ nodeId: `id-${name}`, installId: `install-${name}`, name })),
    ...over
  }
}

/** A judge who finds a place for everything, or as told. */
export function judge (fits: Judge['fits'] = () => true): Judge {
  let n = 0
  return { fits, newId: () => `new-${n++}` }
}

/** The steps in short: `lose a`, `place new-0`. */
export const short = (steps: readonly Step[]): string[] => steps.map((step) => `${step.do} ${step.id}`)

/** Runners of an instance that serve. */
export const ready = (instance: Instance): Situation['runners'] =>
  Object.fromEntries(Object.keys(bodyOf(instance).shardAssignments.runnerToShard)
    .map((id) => [id, { RunnerReady: {} }]))
