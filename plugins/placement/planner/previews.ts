import type { ModelCard } from '../../../kernel/index.js'
import { planBriefly } from './plan.js'
import type {
  ClusterView, InstanceMeta, Meter, Plan, PlanRequest, PlanResult, Sharding
} from './types.js'

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

const SHAPES: readonly Pick<PlanRequest, 'sharding' | 'instanceMeta'>[] = [
  { sharding: 'Pipeline', instanceMeta: 'Ring' },
  { sharding: 'Pipeline', instanceMeta: 'LlamaRpc' },
  { sharding: 'Tensor', instanceMeta: 'Ring' },
  { sharding: 'Tensor', instanceMeta: 'LlamaRpc' }
]

/**
 * Every combination of sharding, meta and number of nodes that makes a difference: each plan once, under the
 * first combination that gives it, and of each shape the first refusal, which holds for more nodes as well.
 * One node is always Pipeline and Ring, so the other shapes start at two. Refusals have no suggestions.
 */
export function previews (
  card: ModelCard, view: ClusterView, scope: PreviewScope = {}, meter: Meter = { steps: 0 }
): Preview[] {
  const excluded = excludedBy(view, scope)
  const ids = new Set(excluded)
  const nodes = view.nodes.filter(({ nodeId, installId }) => !ids.has(nodeId) && !ids.has(installId))
  const most = Math.max(1, nodes.length)
  return SHAPES.flatMap((shape) => {
    const found: Preview[] = []
    let minNodes = shape === SHAPES[0] ? 1 : 2
    while (minNodes <= most) {
      const result = planBriefly({ card, ...shape, minNodes, excluded }, view, meter)
      found.push(previewOf(shape, minNodes, result))
      if (!result.ok) break
      // Fewer nodes than this plan has would give it again.
      minNodes = result.plan.ranks.length + 1
    }
    return found
  })
}

function excludedBy (view: ClusterView, { nodeIds = [], excluded = [] }: PreviewScope): string[] {
  if (nodeIds.length === 0) return [...excluded]
  const wanted = new Set(nodeIds)
  const others = view.nodes.filter(({ nodeId, installId }) => !wanted.has(nodeId) && !wanted.has(installId))
  return [...excluded, ...others.map(({ nodeId }) => nodeId)]
}

function previewOf (shape: typeof SHAPES[number], minNodes: number, result: PlanResult): Preview {
  return { ...shape, minNodes, result, memoryDeltaByNode: result.ok ? deltas(result.plan) : null }
}

function deltas ({ ranks }: Plan): Record<string, number> {
  return Object.fromEntries(ranks.map(({ nodeId, neededBytes }) => [nodeId, neededBytes]))
}
