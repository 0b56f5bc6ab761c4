import { bodyOf, type Instance, type PlacementIntent, type RingInstance } from '../../runners/service.js'
import { instanceOf, AUTOPLACE } from '../place/instance.js'
import type { Step } from '../keeper/decide.js'
import type { FitChecks, Situation } from '../keeper/roles.js'
import type { WaitingEntry } from '../waitlist.js'
import { card, GIB, runnersAre, startPlacement, type Options, type PlacementRig } from './kit.js'

export const NOW = Date.UTC(2026, 0, 1)

/** The intent of a placement that a client requested. */
export const intent = (over: Partial<PlacementIntent> = {}): PlacementIntent =>
  ({ ...AUTOPLACE, origin: 'request', ...over })

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

/** A situation with the nodes n1 to n3, with ids such as `id-n1` and install ids such as `install-n1`. */
export function situation (over: Partial<Situation> = {}): Situation {
  return {
    now: NOW, instances: [], runners: {}, failures: [], gone: new Set(), cut: new Map(), leaving: new Set(),
    drained: new Set(), waiting: new Map(), stopped: new Set(), autoplace: [], roles: new Map(),
    policies: new Set(),
    nodes: ['n1', 'n2', 'n3'].map((name) => ({ nodeId: `id-${name}`, installId: `install-${name}`, name })),
    ...over
  }
}

export function judge (fits: FitChecks['fits'] = () => true): FitChecks {
  let n = 0
  return { fits, newId: () => `new-${n++}` }
}

/** Writes steps as short texts, such as `lose a` and `place new-0`. */
export const short = (steps: readonly Step[]): string[] => steps.map((step) => `${step.do} ${step.id}`)

export const ready = (instance: Instance): Situation['runners'] =>
  Object.fromEntries(Object.keys(bodyOf(instance).shardAssignments.runnerToShard)
    .map((id) => [id, { RunnerReady: {} }]))

export type Waiting = Record<string, { instanceId: string, modelId: string, reason: string, message: string,
  origin: string, since: string }>

const small = card('acme/chat', { totalBytes: GIB, files: [] })

/** Starts the plugin on the master of a cluster of two nodes with 64 GiB each. */
export async function startKeeper (
  t: Parameters<typeof startPlacement>[0], options: Options = {}
): Promise<PlacementRig> {
  const rig = await startPlacement(t, {
    nodes: { n1: 64, n2: 64 }, cards: [small], isMaster: true, config: { autoplace: [] }, ...options
  })
  await rig.clock.advance(1100)
  return rig
}

/** Advances the clock until the condition holds; resolves to the elapsed time in ms. */
export async function passes (
  rig: PlacementRig, what: string, holds: () => boolean, ms = 20_000
): Promise<number> {
  const began = rig.clock.mono()
  while (!holds()) {
    if (rig.clock.mono() - began > ms) throw new Error(`not within ${ms} ms: ${what}`)
    await rig.clock.advance(50)
  }
  return rig.clock.mono() - began
}

export const waiting = async (rig: PlacementRig): Promise<Waiting> =>
  ((await rig.inject({ url: '/state' })).json() as { waitingInstances: Waiting }).waitingInstances

export const put = (rig: PlacementRig, id: string, nodes: string[], over: object = {}): void => {
  rig.state.instances[id] = instance(id, nodes, over)
  runnersAre(rig.state, id, { RunnerReady: {} })
}

export const ids = (rig: PlacementRig): string[] => Object.keys(rig.state.instances)
export const placedOn = (rig: PlacementRig, i = -1): string[] =>
  rig.placed.slice(i).slice(0, 1)
    .flatMap(({ instance }) => Object.keys(bodyOf(instance).shardAssignments.nodeToRunner))
