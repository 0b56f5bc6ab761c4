import type { Route, RouteQuery } from '../service.js'

/** A runner that accepts new requests, with its load as the requesting node counts it. */
export interface Candidate extends
  Readonly<Pick<Route, 'nodeId' | 'installId' | 'instanceId' | 'runnerId'>> {
  readonly own: boolean
  readonly load: number
  readonly contextTokens: number
  /** How much of the request the instance has in its cache; see `PrefixTable.rate`. */
  readonly held?: number
}

/** Why no runner accepts a request, with the ids of the nodes that serve the model. */
export interface Refusal {
  readonly code: 'none_serves' | 'other_node_named' | 'none_left'
  readonly nodeIds: readonly string[]
}

interface Wanted extends Pick<RouteQuery, 'except' | 'pinned'> {
  /** Tokens of a context that was too small for the request; only longer contexts qualify. */
  longerThan?: number
}

/** Open requests that the instance with the prefix may have above the least: see prefix-sim.test.ts. */
export const BUSIER_MAX = 4

/** Chooses the runner with the most of the request in its cache, else the least outstanding work. Pure. */
export function pick (
  candidates: readonly Candidate[], { except = [], pinned = false, longerThan = -1 }: Wanted
): Candidate | Refusal {
  const nodeIds = candidates.map(({ nodeId }) => nodeId)
  if (candidates.length === 0) return { code: 'none_serves', nodeIds }
  const allowed = candidates.filter(({ own }) => own || !pinned)
  if (allowed.length === 0) return { code: 'other_node_named', nodeIds }
  const left = allowed.filter(({ instanceId, contextTokens }) =>
    !except.includes(instanceId) && contextTokens > longerThan)
  const least = Math.min(...left.map(({ load }) => load))
  const value = ({ held = 0, load }: Candidate): number => load > least + BUSIER_MAX ? 0 : held
  return left.toSorted((a, b) => value(b) - value(a) || compare(a, b))[0] ?? { code: 'none_left', nodeIds }
}

/** Orders runners by load. With equal load this node's own comes first, then the lower instance id. */
export function compare (a: Candidate, b: Candidate): number {
  return a.load - b.load || Number(b.own) - Number(a.own) || byText(a.instanceId, b.instanceId) ||
    byText(a.runnerId, b.runnerId)
}

/** Compares by code units, so that the order does not depend on a node's locale. */
const byText = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
