import type { ModelCard } from '../../../kernel/index.js'
import { accountOf } from './refusals.js'
import { solve } from './solve.js'
import type { Solved } from './solve.js'
import { suggest } from './suggest.js'
import type {
  ClusterView, InstanceMeta, Meter, NodeFacts, PlanRequest, PlanResult, Sharding, Suggestion
} from './types.js'

/**
 * Chooses the nodes and parts for a model, or says why there is no choice and what would make one. Pure:
 * the same request and view give the same result, in whatever order nodes and edges are listed.
 */
export function plan (request: PlanRequest, view: ClusterView, meter: Meter = { steps: 0 }): PlanResult {
  const solved = solve(request, view, meter)
  if (solved.ok) return solved
  return refusalOf(request, view, solved, suggest(request, view, solved.problem, meter))
}

/** The same without suggestions, for callers that try other requests anyway. */
export function planBriefly (request: PlanRequest, view: ClusterView, meter: Meter): PlanResult {
  const solved = solve(request, view, meter)
  return solved.ok ? solved : refusalOf(request, view, solved, [])
}

function refusalOf (
  request: PlanRequest, view: ClusterView, { problem }: Solved & { ok: false }, suggestions: Suggestion[]
): PlanResult {
  const { reason, message, details } = accountOf(request, view, problem)
  const [first] = suggestions
  return {
    ok: false,
    reason,
    message: first === undefined ? message : `${message} It can be placed if you ${first.text}.`,
    details: { ...details, suggestions },
    ...problem.reason === 'info_pending' && {
      pendingNodes: problem.pending.map(({ node }) => node.nodeId)
    }
  }
}

/** One combination and what comes of it. */
export interface Preview {
  sharding: Sharding
  instanceMeta: InstanceMeta
  minNodes: number
  result: PlanResult
  /** Node id to the bytes the placement would take there; null where it is refused. */
  memoryDeltaByNode: Record<string, number> | null
}

/** Which nodes are looked at: node ids or install ids; unknown ones are ignored. */
export interface PreviewScope {
  /** Only these nodes; all when left out or empty. */
  nodeIds?: readonly string[]
  excluded?: readonly string[]
}

const SHAPES = (['Pipeline', 'Tensor'] as const).flatMap((sharding) =>
  (['Ring', 'LlamaRpc'] as const).map((instanceMeta) => ({ sharding, instanceMeta })))

/**
 * Every combination of sharding, meta and number of nodes that makes a difference: each plan once, under the
 * first combination that gives it, and of each shape the first refusal, which holds for more nodes as well.
 * One node is always Pipeline and Ring, so the other shapes start at two. Refusals have no suggestions.
 */
export function previews (
  card: ModelCard, view: ClusterView, { nodeIds = [], excluded: out = [] }: PreviewScope = {},
  meter: Meter = { steps: 0 }
): Preview[] {
  const has = (ids: readonly string[], { nodeId, installId }: NodeFacts): boolean =>
    ids.includes(nodeId) || ids.includes(installId)
  const nodes = view.nodes.filter((node) => !has(out, node) && (nodeIds.length === 0 || has(nodeIds, node)))
  const excluded = view.nodes.filter((node) => !nodes.includes(node)).map(({ nodeId }) => nodeId)
  return SHAPES.flatMap((shape) => {
    const found: Preview[] = []
    for (let minNodes = shape === SHAPES[0] ? 1 : 2; minNodes <= Math.max(1, nodes.length);) {
      const result = planBriefly({ card, ...shape, minNodes, excluded }, view, meter)
      const memoryDeltaByNode = result.ok
        ? Object.fromEntries(result.plan.ranks.map(({ nodeId, neededBytes }) => [nodeId, neededBytes]))
        : null
      found.push({ ...shape, minNodes, result, memoryDeltaByNode })
      if (!result.ok) break
      // Fewer nodes than this plan has would give it again.
      minNodes = result.plan.ranks.length + 1
    }
    return found
  })
}
