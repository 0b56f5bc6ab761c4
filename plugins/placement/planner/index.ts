import type { ModelCard } from '../../../kernel/index.js'
import type { Unplanned } from './refusals.js'
import { solve } from './solve.js'
import { suggest } from './suggest.js'
import type {
  ClusterView, InstanceMeta, NodeFacts, PlanRequest, PlanResult, Sharding, Suggestion
} from './types.js'

/** Chooses nodes for a model and each node's part, or explains the refusal and suggests changes. Pure. */
export function plan (request: PlanRequest, view: ClusterView): PlanResult {
  const solved = solve(request, view)
  return solved.ok ? solved : refusalOf(solved, suggest(request, view, solved))
}

export function planWithoutSuggestions (request: PlanRequest, view: ClusterView): PlanResult {
  const solved = solve(request, view)
  return solved.ok ? solved : refusalOf(solved, [])
}

function refusalOf (
  { shortage: _, message, details, ...rest }: Unplanned, suggestions: Suggestion[]
): PlanResult {
  const [first] = suggestions
  return {
    ...rest,
    message: first === undefined ? message : `${message} It can be placed if you ${first.text}.`,
    details: { ...details, suggestions }
  }
}

export interface Preview {
  sharding: Sharding
  instanceMeta: InstanceMeta
  minNodes: number
  result: PlanResult
}

/** Nodes are given by node id or install id; unknown ones are ignored. */
export interface PreviewScope extends Partial<Pick<PlanRequest, 'contextLength' | 'excluded' | 'slots'>> {
  /** If present and not empty, only these nodes are used. */
  nodeIds?: readonly string[]
}

const SHAPES = (['Pipeline', 'Tensor'] as const).flatMap((sharding) =>
  (['Ring', 'LlamaRpc'] as const).map((instanceMeta) => ({ sharding, instanceMeta })))

/**
 * Previews every combination of sharding, meta and number of nodes. Equal plans are listed once, under the
 * first combination; after a refusal, a shape is not tried on more nodes, which would not help. One node is
 * always Pipeline and Ring, so other shapes start at two. Refusals have no suggestions.
 */
export function previews (
  card: ModelCard, view: ClusterView, { nodeIds = [], excluded: out = [], ...asked }: PreviewScope = {}
): Preview[] {
  const has = (ids: readonly string[], { nodeId, installId }: NodeFacts): boolean =>
    ids.includes(nodeId) || ids.includes(installId)
  const nodes = view.nodes.filter((node) => !has(out, node) && (nodeIds.length === 0 || has(nodeIds, node)))
  const excluded = view.nodes.filter((node) => !nodes.includes(node)).map(({ nodeId }) => nodeId)
  return SHAPES.flatMap((shape) => {
    const found: Preview[] = []
    for (let minNodes = shape === SHAPES[0] ? 1 : 2; minNodes <= Math.max(1, nodes.length);) {
      const result =
        planWithoutSuggestions({ card, ...asked, ...shape, minNodes, excluded, force: false }, view)
      found.push({ ...shape, minNodes, result })
      if (!result.ok) break
      // Skip requests for fewer nodes, because they would give this plan again.
      minNodes = result.plan.ranks.length + 1
    }
    return found
  })
}
