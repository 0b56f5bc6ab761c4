import { nameOf } from '../../../kernel/cli/index.js'
import { bodyOf } from '../../runners/service.js'
import type { Instance } from '../../runners/service.js'

/** GET /state, as far as the verbs about one model read it. */
export interface StateView {
  instances: Record<string, Instance>
  /** Runner id to its status, a one-key object. */
  runners: Record<string, Record<string, unknown>>
  instanceFailures: { instanceId: string, errorMessage: string }[]
  /** Absent in the state of an older node. */
  waitingInstances?: Record<string, { instanceId: string, modelId: string, message: string }>
  nodeIdentities: Record<string, { friendlyName?: string | null, chipId?: string | null }>
  nodeResources: Record<string, { backends?: string[], engines?: Record<string, { words?: string } | null> }>
  nodeSystem: Record<string, { accelerator?: { name?: string | null } | null }>
}

/** A node of an instance. */
export interface SeenNode { nodeId: string, name: string, state: string }

/** An instance of a model, or what waits for a place. */
export interface SeenInstance {
  instanceId: string
  state: 'ready' | 'starting' | 'failed' | 'draining' | 'waiting'
  /** Why it has failed, or waits. */
  error: string | null
  /** Most tokens of a request; null while it has no place. */
  contextTokenLimit: number | null
  /** Answers at once; null without a place, and for an engine that keeps none. */
  slots: number | null
  nodes: SeenNode[]
}

/** The instances of a model and what waits to be one. Pure. */
export function instancesOf (state: StateView, modelId: string): SeenInstance[] {
  const placed = Object.entries(state.instances)
    .filter(([, instance]) => bodyOf(instance).shardAssignments.modelId === modelId)
    .map(([instanceId, instance]) => instanceOf(state, instanceId, instance))
  const waiting = Object.values(state.waitingInstances ?? {})
    .filter((entry) => entry.modelId === modelId && !Object.hasOwn(state.instances, entry.instanceId))
    .map(({ instanceId, message: error }): SeenInstance =>
      ({ instanceId, state: 'waiting', error, contextTokenLimit: null, slots: null, nodes: [] }))
  return [...placed, ...waiting]
}

function instanceOf (state: StateView, instanceId: string, instance: Instance): SeenInstance {
  const { contextTokenLimit, slots = null, drainUntil, shardAssignments: { nodeToRunner } } = bodyOf(instance)
  const nodes = Object.entries(nodeToRunner).map(([nodeId, runnerId]) =>
    ({ nodeId, name: nameOf(state, nodeId), state: wordsOf(state.runners[runnerId]) }))
  const ready = nodes.length > 0 && nodes.every((node) => node.state === READY)
  const error = ready ? null : failureOf(state, instanceId, nodes)
  const kind = drainUntil !== undefined
    ? 'draining'
    : ready ? 'ready' : error === null ? 'starting' : 'failed'
  return { instanceId, state: kind, error, contextTokenLimit, slots, nodes }
}

function failureOf (
  { instanceFailures }: StateView, instanceId: string, nodes: readonly SeenNode[]
): string | null {
  const recorded = instanceFailures.find((failure) => failure.instanceId === instanceId)
  const failed = nodes.find(({ state }) => state.startsWith(FAILED))
  return recorded?.errorMessage ?? failed?.state.slice(FAILED.length) ?? null
}

const READY = 'ready'
const FAILED = 'failed: '

const WORDS: Readonly<Record<string, string>> = {
  RunnerIdle: 'waits for its runner', RunnerConnecting: 'starts', RunnerConnected: 'starts',
  RunnerLoading: 'loads', RunnerLoaded: 'warms up', RunnerWarmingUp: 'warms up', RunnerReady: READY,
  RunnerRunning: READY, RunnerShuttingDown: 'ends', RunnerShutdown: 'ends'
}

/** A runner's status in words. */
function wordsOf (status: Record<string, unknown> = { RunnerIdle: {} }): string {
  const [[kind, body] = ['RunnerIdle', {}]] = Object.entries(status)
  const { layersLoaded, totalLayers, errorMessage } = (body ?? {}) as Record<string, unknown>
  if (kind === 'RunnerFailed') return FAILED + String(errorMessage)
  const words = WORDS[kind] ?? kind
  return kind === 'RunnerLoading' ? `${words} (${String(layersLoaded)} of ${String(totalLayers)})` : words
}
