import type { Route, RouteQuery } from '../service.js'

/** A runner that takes new requests, as the node that asks knows it. */
export interface Candidate extends
  Readonly<Pick<Route, 'nodeId' | 'installId' | 'instanceId' | 'runnerId'>> {
  readonly own: boolean
  /** Tasks it is known to have open. */
  readonly load: number
  /** The context length of its instance, tokens. */
  readonly contextTokens: number
}

/** Why no runner takes a request, with the ids of the nodes that serve the model. */
export interface Refusal {
  readonly code: 'none_serves' | 'other_node_named' | 'none_left'
  readonly nodeIds: readonly string[]
}

interface Wanted extends Pick<RouteQuery, 'except' | 'pinned'> {
  /** Tokens of a context that had no room for the request. */
  longerThan?: number
}

/** Chooses the runner that serves a request, the one with the least outstanding work. Pure. */
export function pick (
  candidates: readonly Candidate[], { except = [], pinned = false, longerThan = -1 }: Wanted
): Candidate | Refusal {
  const nodeIds = candidates.map(({ nodeId }) => nodeId)
  if (candidates.length === 0) return { code: 'none_serves', nodeIds }
  const allowed = candidates.filter(({ own }) => own || !pinned)
  if (allowed.length === 0) return { code: 'other_node_named', nodeIds }
  const left = allowed.filter(({ instanceId, contextTokens }) =>
    !except.includes(instanceId) && contextTokens > longerThan)
  return left.toSorted(compare)[0] ?? { code: 'none_left', nodeIds }
}

/**
 * Orders runners by their load. Between equals this node's own comes first, then the lower instance
 * id: every node decides alike.
 */
export function compare (a: Candidate, b: Candidate): number {
  return a.load - b.load || Number(b.own) - Number(a.own) || byText(a.instanceId, b.instanceId) ||
    byText(a.runnerId, b.runnerId)
}

/** By code units: the order must not depend on a node's language. */
const byText = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
