import { deepFreeze } from '../config/paths.js'
import type { Caller } from '../api/plugin.js'
import type { NodeHealth } from '../plugins/health.js'
import type { LinkFact, NodeReport } from '../api/services.js'
import type { MachineStats } from '../api/vitals.js'

/**
 * A plugin's view of a `/state` key; `base`: the kernel's value. A frozen value never changes, at any depth.
 */
export type StateView = (caller: Caller, base: unknown) => unknown

/** Facts about one node; null if unknown. */
export interface NodeFacts extends NodeReport {
  /** Wall time of its last sign of life, ms. */
  readonly seenAt: number | null
  readonly identity: object | null
  readonly memory: MachineStats['memory'] | null
  readonly system: MachineStats['system'] | null
  readonly disk: MachineStats['disk'] | null
  readonly network: MachineStats['network'] | null
  readonly health: NodeHealth | null
  readonly capabilities: readonly string[]
  readonly tasks: Readonly<Record<string, unknown>>
}

export interface StateInput {
  session: { readonly sessionId: string, readonly masterNodeId: string | null, readonly term: number }
  quorum: 'ok' | 'lost'
  stale: boolean
  /** This node first. */
  nodes: readonly NodeFacts[]
  durableEvents: number
}

/** The kernel's part of GET /state: every key of the contract, in camelCase. */
export function baseState (input: StateInput): Record<string, unknown> {
  const { session } = input
  const localNodeId = input.nodes[0]!.view.nodeId
  // The same order on every node.
  const nodes = [...input.nodes].sort((a, b) => a.view.nodeId < b.view.nodeId ? -1 : 1)
  const live = nodes.filter(({ view }) => view.live)
  const identities = each(nodes, ({ identity }) => identity)
  return {
    sessionId: session.sessionId,
    masterNodeId: session.masterNodeId,
    localNodeId,
    instances: {},
    runners: {},
    downloads: {},
    tasks: Object.assign({}, ...live.map(({ tasks }) => tasks)) as object,
    lastSeen: each(nodes, ({ seenAt }) => seenAt === null ? null : new Date(seenAt).toISOString()),
    topology: {
      nodes: live.map(({ view }) => view.nodeId),
      connections: each(live, ({ links }) => links.length === 0 ? null : edges(links))
    },
    tracingEnabled: false,
    lastEventAppliedIdx: input.durableEvents,
    nodeIdentities: identities,
    node_identities: identities,
    nodeMemory: each(live, ({ memory }) => memory),
    nodeSystem: each(live, ({ system }) => system),
    nodeDisk: each(live, ({ disk }) => disk),
    nodeNetwork: each(live, ({ network }) => network),
    nodeHealth: each(nodes, ({ health }) => health),
    nodeResources: each(live, ({ resources }) => resources),
    nodeCapabilities: each(live, ({ capabilities }) => [...capabilities]),
    instanceFailures: [],
    cluster: {
      term: session.term,
      quorum: input.quorum,
      stale: input.stale,
      partition: live.length < nodes.length,
      knownNodes: nodes.length,
      liveNodes: live.length
    }
  }
}

function each<T> (nodes: readonly NodeFacts[], of: (node: NodeFacts) => T | null): Record<string, T> {
  return Object.fromEntries(nodes.flatMap((node) => {
    const fact = of(node)
    return fact === null ? [] : [[node.view.nodeId, fact]]
  }))
}

/** Cache of the edges by list of links: a large cluster has many, and the state is built often. */
const made = new WeakMap<readonly LinkFact[], Record<string, object[]>>()

function edges (links: readonly LinkFact[]): Record<string, object[]> {
  const known = made.get(links) ?? edgesOf(links)
  made.set(links, known)
  return known
}

function edgesOf (links: readonly LinkFact[]): Record<string, object[]> {
  const all = links.map(({ nodeId, ipAddress, port, rttMs, bytesPerSecond }) => {
    const family = ipAddress.includes(':') ? 'ip6' : 'ip4'
    const sinkMultiaddr = { address: `/${family}/${ipAddress}/tcp/${port}`, ipAddress, port }
    return [nodeId, [{ sinkMultiaddr, session: true, rttMs, bytesPerSecond }]]
  })
  return deepFreeze(Object.fromEntries(all) as Record<string, object[]>)
}

/** Adds the plugins' views. If a view throws, the kernel's value stays and the error is reported. */
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

export interface HiddenFields {
  /** Names of fields, at any depth. */
  readonly names: ReadonlySet<string>
  /** Meanings of health codes: shown instead of a reason's message, which names paths and addresses. */
  readonly meanings: ReadonlyMap<string, string>
}

/**
 * Returns the value without hidden fields; the same value if it has none. `known` caches the results for
 * frozen values, so that each keeps its identity.
 */
export function redact (
  value: unknown, hidden: HiddenFields, known = new WeakMap<object, unknown>()
): unknown {
  if (typeof value !== 'object' || value === null) return value
  const before = known.get(value)
  if (before !== undefined) return before
  const fields = value as Record<string, unknown>
  let next: Record<string, unknown> | undefined
  for (const key of Object.keys(fields)) {
    const field = fields[key]
    const shown = Array.isArray(value) || !isHidden(key, fields, hidden)
      ? redact(field, hidden, known)
      : key === 'message' ? hidden.meanings.get(String(fields['code'])) ?? fields['code'] : null
    if (shown === field) continue
    next ??= (Array.isArray(value) ? [...value as unknown[]] : { ...fields }) as Record<string, unknown>
    next[key] = shown
  }
  if (Object.isFrozen(value)) known.set(value, Object.freeze(next ?? value))
  return next ?? value
}

const isHidden = (key: string, fields: Record<string, unknown>, { names }: HiddenFields): boolean =>
  names.has(key) || (key === 'message' && typeof fields['remediation'] === 'string')
