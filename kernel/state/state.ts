import { deepFreeze } from '../config/paths.js'
import type { Caller } from '../api/plugin.js'
import type { NodeHealth } from '../plugins/health.js'
import type { LinkFact, NodeReport } from '../api/services.js'
import type { MachineStats } from '../api/vitals.js'

/** A plugin's view of a `/state` key; `base` is the kernel's value. A frozen result must be deeply frozen. */
export type StateView = (caller: Caller, base: unknown) => unknown

/** Facts about one node; null if unknown. */
export interface NodeFacts extends NodeReport {
  /** Wall time in ms of the node's last message; for this node, the current time. */
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
  /** Facts about all nodes, this node first. */
  nodes: readonly NodeFacts[]
  durableEvents: number
}

/** The kernel's part of GET /state: every key of the API contract, in camelCase. */
export function baseState (input: StateInput): Record<string, unknown> {
  const { session } = input
  const localNodeId = input.nodes[0]!.view.nodeId
  // Sorted, so that every node lists the nodes in the same order.
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
      term: session.term, quorum: input.quorum, stale: input.stale,
      partition: live.length < nodes.length, knownNodes: nodes.length, liveNodes: live.length
    }
  }
}

function each<T> (nodes: readonly NodeFacts[], of: (node: NodeFacts) => T | null): Record<string, T> {
  return Object.fromEntries(nodes.flatMap((node) => {
    const fact = of(node)
    return fact === null ? [] : [[node.view.nodeId, fact]]
  }))
}

/** Caches edges by link list, since a large cluster has many and the state is built often. */
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

/** Adds the plugins' views. If a view throws, the kernel's value is kept and the error reported. */
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
  /** Names of hidden fields, at any depth. */
  readonly names: ReadonlySet<string>
  /** Explanations of health codes, shown instead of a reason's message, which names paths and addresses. */
  readonly meanings: ReadonlyMap<string, string>
}

/**
 * Returns the value without hidden fields, or the same object if it has none. `known` caches results for
 * frozen values, so that each result keeps its identity.
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
