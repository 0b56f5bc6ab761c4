import type { Caller, NodeInfo } from './define.js'
import type { Health } from './health.js'
import type { Session } from './services.js'
import type { Vitals } from './vitals.js'

/** A plugin's view of a `/state` key; `base` is what the kernel would have shown under it. */
export type StateView = (caller: Caller, base: unknown) => unknown

export interface StateInput {
  node: NodeInfo
  session: Session & { readonly term: number }
  health: Health
  vitals: Vitals
  url: string | null
  capabilities: readonly string[]
  durableEvents: number
  nowIso: string
  machine: { model: string, chip: string, os: string, commit: string | null }
}

/** The kernel's part of GET /state for a lone node: every key of the contract, in camelCase. */
export function baseState (input: StateInput): Record<string, unknown> {
  const { node, session, vitals } = input
  const id = node.nodeId
  const health = input.health.snapshot()
  const identity = {
    modelId: input.machine.model,
    chipId: input.machine.chip,
    friendlyName: node.name,
    osVersion: input.machine.os,
    svcVersion: node.version,
    svcCommit: input.machine.commit,
    nodeInstallId: node.installId,
    apiUrl: input.url
  }
  return {
    sessionId: session.sessionId,
    masterNodeId: session.masterNodeId,
    localNodeId: id,
    instances: {},
    runners: {},
    downloads: {},
    tasks: {},
    lastSeen: { [id]: input.nowIso },
    topology: { nodes: [id], connections: {} },
    tracingEnabled: false,
    lastEventAppliedIdx: input.durableEvents,
    nodeIdentities: { [id]: identity },
    node_identities: { [id]: identity },
    nodeMemory: { [id]: vitals.memory },
    nodeSystem: { [id]: vitals.system },
    nodeDisk: { [id]: vitals.disk },
    nodeNetwork: { [id]: vitals.network },
    nodeHealth: { [id]: health },
    nodeResources: {
      [id]: { backends: ['cpu'], participation: 'full', capabilityConflicts: health.reasons }
    },
    nodeCapabilities: { [id]: [...input.capabilities] },
    instanceFailures: [],
    cluster: {
      term: session.term,
      quorum: 'ok',
      stale: session.masterNodeId === null,
      partition: false,
      knownNodes: 1,
      liveNodes: 1
    }
  }
}

/** Adds the plugins' views. A view that throws leaves the kernel's value and is reported. */
export function withViews (
  base: Record<string, unknown>, views: ReadonlyMap<string, StateView>, caller: Caller,
  onError: (key: string, error: unknown) => void
): Record<string, unknown> {
  const state = { ...base }
  for (const [key, view] of views) {
    try { state[key] = view(caller, base[key]) } catch (error) { onError(key, error) }
  }
  return state
}

/** Keys that say where things are: null for callers without the operator authority. */
const WHEREABOUTS = new Set([
  'apiUrl', 'sinkMultiaddr', 'hostsByNode',
  'stagingRoot', 'directory', 'storePath', 'store_path', 'configPath'
])

/** The same value with addresses and paths nulled. */
export function redact (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redact)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) =>
    [key, WHEREABOUTS.has(key) ? null : redact(inner)]))
}
