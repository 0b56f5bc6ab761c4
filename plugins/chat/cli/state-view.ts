import { nameOf } from '../../../kernel/cli/index.js'
import { bodyOf, loadingText, STATUS_TEXT, type Instance, type LoadProgress } from '../../runners/service.js'

/** The parts of GET /state that the verbs about one model read. */
export interface StateView {
  instances: Record<string, Instance>
  /** Status by runner id; each status is an object with a single key. */
  runners: Record<string, Record<string, unknown>>
  instanceFailures: { instanceId: string, errorMessage: string }[]
  /** Absent in the state of older nodes. */
  waitingInstances?: Record<string, { instanceId: string, modelId: string, message: string }>
  /** Policies of the plugin placement, ready to print. */
  policies?: Record<string, { words: string }>
  nodeIdentities: Record<string, { friendlyName?: string | null, chipId?: string | null }>
  nodeResources: Record<string, { backends?: string[], engines?: Record<string, { words?: string } | null> }>
  nodeSystem: Record<string, { accelerator?: { name?: string | null } | null }>
}

export interface NodeView { nodeId: string, name: string, state: string }

/** A model instance that is placed or waits for a node. */
export interface InstanceView {
  instanceId: string
  state: 'ready' | 'starting' | 'failed' | 'draining' | 'waiting'
  /** Why the instance failed or waits. */
  error: string | null
  /** Token limit of a request, prompt included; null until placed. */
  contextTokenLimit: number | null
  /** Parallel requests; null until placed, and for engines without slots. */
  slots: number | null
  nodes: NodeView[]
}

/** Placed and waiting instances of a model. Pure. */
export function instancesOf (state: StateView, modelId: string): InstanceView[] {
  const placed = Object.entries(state.instances)
    .filter(([, instance]) => bodyOf(instance).shardAssignments.modelId === modelId)
    .map(([instanceId, instance]) => instanceOf(state, instanceId, instance))
  const waiting = Object.values(state.waitingInstances ?? {})
    .filter((entry) => entry.modelId === modelId && !Object.hasOwn(state.instances, entry.instanceId))
    .map(({ instanceId, message: error }): InstanceView =>
      ({ instanceId, state: 'waiting', error, contextTokenLimit: null, slots: null, nodes: [] }))
  return [...placed, ...waiting]
}

function instanceOf (state: StateView, instanceId: string, instance: Instance): InstanceView {
  const { contextTokenLimit, slots = null, drainUntil, shardAssignments: { nodeToRunner } } = bodyOf(instance)
  const nodes = Object.entries(nodeToRunner).map(([nodeId, runnerId]) =>
    ({ nodeId, name: nameOf(state, nodeId), state: statusText(state.runners[runnerId]) }))
  const ready = nodes.length > 0 && nodes.every((node) => node.state === READY)
  const error = ready ? null : failureOf(state, instanceId, nodes)
  const kind = drainUntil !== undefined
    ? 'draining'
    : ready ? 'ready' : error === null ? 'starting' : 'failed'
  return { instanceId, state: kind, error, contextTokenLimit, slots, nodes }
}

function failureOf (
  { instanceFailures }: StateView, instanceId: string, nodes: readonly NodeView[]
): string | null {
  const recorded = instanceFailures.find((failure) => failure.instanceId === instanceId)
  const failed = nodes.find(({ state }) => state.startsWith(FAILED))
  return recorded?.errorMessage ?? failed?.state.slice(FAILED.length) ?? null
}

const READY = STATUS_TEXT['RunnerReady']
const FAILED = 'failed: '

/** A runner's status as text. */
function statusText (status: Record<string, unknown> = { RunnerIdle: {} }): string {
  const [[kind, body] = ['RunnerIdle', {}]] = Object.entries(status)
  const { errorMessage, ...progress } = (body ?? {}) as LoadProgress & { errorMessage?: unknown }
  if (kind === 'RunnerFailed') return FAILED + String(errorMessage)
  return kind === 'RunnerLoading' ? loadingText(progress) : STATUS_TEXT[kind] ?? kind
}
