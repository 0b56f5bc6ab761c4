import type { Replies } from '../../../docs/reference/replies.js'

type Whole = Extract<Replies['GET /state'], { localNodeId: string }>
export type State = Omit<Whole, 'sessionId' | 'node_identities' | 'nodeNetwork'> & {
  sessionId: string | null
  // Keys that plugins add to the state, for which the API declares no types.
  waitingInstances?: Record<string, Waiting>
  /** Drained nodes by install id. */
  drainedNodes?: Record<string, { since: string, by: string }>
}
export interface Waiting { modelId: string, reason: string, message: string, since: string }

export type Tagged<T> = Record<string, T>
type In<M> = M extends Record<string, infer T> ? T : never
export type InstanceBody = In<In<State['instances']>>
type Health = In<State['nodeHealth']>
export type HealthReason = Health['reasons'][number]
export type Accelerator = NonNullable<In<State['nodeSystem']>['accelerators']>[number]
interface Bytes { inBytes: number }

const body = <T>(tagged: Tagged<T>): T => Object.values(tagged)[0]!
export const tagOf = (tagged: Tagged<unknown>): string => Object.keys(tagged)[0] ?? ''

export type Instance = ReturnType<typeof instancesOf>[number]

const ORDER = [
  'RunnerFailed', 'RunnerShutdown', 'RunnerShuttingDown', 'RunnerIdle', 'RunnerConnecting', 'RunnerConnected',
  'RunnerLoading', 'RunnerLoaded', 'RunnerWarmingUp', 'RunnerRunning', 'RunnerReady'
]

export function phaseWord (tag: string): string {
  const words = tag.replace(/^Runner/, '').replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase()
  return words === '' ? 'waiting' : words
}

/** Every instance, by model and then by id, with the status of its slowest runner. */
export function instancesOf (state: State) {
  const busy = new Map<string, number>()
  for (const tagged of Object.values(state.tasks)) {
    const { instanceId, status } = body(tagged)
    if (instanceId === null || (status !== 'Running' && status !== 'Pending')) continue
    busy.set(instanceId, (busy.get(instanceId) ?? 0) + 1)
  }
  return Object.values(state.instances).map((tagged) => {
    const one = body(tagged)
    const { modelId, runnerToShard, nodeToRunner } = one.shardAssignments
    const tags = Object.keys(runnerToShard).map((id) => tagOf(state.runners[id] ?? {}))
    const slowest = tags.reduce((a, b) => ORDER.indexOf(a) <= ORDER.indexOf(b) ? a : b, tags[0] ?? '')
    const shard = Object.values(runnerToShard)[0]
    return {
      ...one, modelId, card: shard === undefined ? null : body(shard).modelCard,
      nodeIds: Object.keys(nodeToRunner), phase: phaseWord(slowest),
      ready: slowest === 'RunnerReady' || slowest === 'RunnerRunning',
      inFlight: busy.get(one.instanceId) ?? 0
    }
  }).sort((a, b) => a.modelId === b.modelId
    ? a.instanceId < b.instanceId ? -1 : 1
    : a.modelId < b.modelId ? -1 : 1)
}

export type ClusterNode = ReturnType<typeof nodesOf>[number]

const part = (space: { total: Bytes, available: Bytes } | undefined) =>
  space === undefined
    ? null
    : { total: space.total.inBytes, used: space.total.inBytes - space.available.inBytes }

/** Every known node, the master first and then by name, with null for missing readings. */
export function nodesOf (state: State) {
  const ids = new Set([...state.topology.nodes, ...Object.keys(state.nodeIdentities)])
  return [...ids].map((id) => {
    const identity = state.nodeIdentities[id] ?? null
    const health: Health = state.nodeHealth[id] ?? { level: 'ok', reasons: [] }
    const memory = state.nodeMemory[id]
    return {
      id, identity, health, name: identity?.friendlyName ?? id.slice(0, 8),
      live: !health.reasons.some(({ code }) => code === 'unreachable') && state.topology.nodes.includes(id),
      master: id === state.masterNodeId, local: id === state.localNodeId,
      drained: Object.hasOwn(state.drainedNodes ?? {}, identity?.nodeInstallId ?? ''),
      memory: part(memory && { total: memory.ramTotal, available: memory.ramAvailable }),
      disk: part(state.nodeDisk[id]), system: state.nodeSystem[id] ?? null,
      backends: state.nodeResources[id]?.backends ?? [],
      participation: state.nodeResources[id]?.participation ?? 'full',
      tags: state.nodeCapabilities[id] ?? [], lastSeen: state.lastSeen[id] ?? null
    }
  }).sort((a, b) => a.master !== b.master ? (a.master ? -1 : 1) : a.name < b.name ? -1 : 1)
}

export type Transfer = ReturnType<typeof transfersOf>[number]

const number = (value: unknown): number => typeof value === 'number'
  ? value
  : Number((value as Bytes | undefined)?.inBytes ?? 0)

export function transfersOf (state: State) {
  return Object.entries(state.downloads).flatMap(([nodeId, list]) => list.map((tagged) => {
    const one = body(tagged)
    const tag = tagOf(tagged).replace(/^Download/, '').toLowerCase()
    const progress = (one['downloadProgress'] ?? one) as Record<string, unknown>
    const total = number(progress['total'])
    return {
      nodeId, modelId: String(one['modelId']),
      status: tag as 'pending' | 'ongoing' | 'completed' | 'failed', total,
      done: tag === 'completed' ? total : number(progress['downloaded']),
      bytesPerSecond: progress['speed'] === undefined ? null : number(progress['speed']),
      etaMs: progress['etaMs'] === undefined ? null : number(progress['etaMs']),
      error: one['errorMessage'] === undefined ? null : String(one['errorMessage'])
    }
  }))
}

export const emptyState: State = {
  sessionId: null, masterNodeId: null, localNodeId: '', instances: {}, runners: {}, downloads: {}, tasks: {},
  lastSeen: {}, topology: { nodes: [], connections: {} }, tracingEnabled: false, lastEventAppliedIdx: 0,
  nodeIdentities: {}, nodeMemory: {}, nodeSystem: {}, nodeDisk: {}, nodeHealth: {}, nodeResources: {},
  nodeCapabilities: {}, instanceFailures: [],
  cluster: { term: 0, quorum: 'ok', stale: true, partition: false, knownNodes: 0, liveNodes: 0 }
}
