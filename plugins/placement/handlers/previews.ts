import { randomUUID } from 'node:crypto'
import type { RouteRequest } from '../../../kernel/index.js'
import { instanceOf, visibleTo } from '../place/instance.js'
import type { Planning } from '../place/planning.js'
import { previews as combinations } from '../planner/index.js'
import type { Preview } from '../planner/index.js'
import type { routes } from '../routes.js'

export async function placement (
  planning: Planning, request: RouteRequest<typeof routes.placement>
): Promise<unknown> {
  const { query, caller, signal } = request
  const { plan, card, facts } = await planning.plan({
    modelId: query.model_id,
    sharding: query.sharding,
    instanceMeta: query.instance_meta,
    minNodes: query.min_nodes,
    contextLength: query.context_length,
    slots: query.slots,
    excluded: planning.refs(query.excluded_node_ids, query.excluded_nodes),
    force: false
  }, signal)
  return visibleTo(caller, instanceOf(plan, card, facts.nodes, randomUUID))
}

export async function previews (
  planning: Planning, { query, caller }: RouteRequest<typeof routes.previews>
): Promise<unknown> {
  const card = await planning.card(query.model_id)
  await planning.readGpus()
  const facts = planning.facts.now()
  const only = planning.refs(query.node_ids)
  const excluded = planning.refs(query.excluded_node_ids, query.excluded_nodes)
  const rows = combinations(card, planning.view(facts, card.modelId), {
    nodeIds: planning.nodeIds(only), excluded: planning.nodeIds(excluded),
    contextLength: query.context_length, slots: query.slots
  })
  return {
    unknown_nodes: planning.unknownNodes([...only, ...excluded]),
    previews: rows.map((row) => rowOf(card.modelId, row, ({ plan }) =>
      visibleTo(caller, instanceOf(plan, card, facts.nodes, randomUUID))))
  }
}

function rowOf (
  modelId: string, { sharding, instanceMeta, minNodes, result }: Preview,
  instance: (planned: Preview['result'] & { ok: true }) => unknown
): Record<string, unknown> {
  const shape = { model_id: modelId, sharding, instance_meta: instanceMeta, min_nodes: minNodes }
  if (!result.ok) {
    const { reason, message: error, details } = result
    return { ...shape, instance: null, memory_delta_by_node: null, error, reason, details }
  }
  const { ranks, contextLength, slots, stagedBytes, why } = result.plan
  return {
    ...shape,
    instance: instance(result),
    memory_delta_by_node: Object.fromEntries(ranks.map(({ nodeId, neededBytes }) => [nodeId, neededBytes])),
    error: null,
    reason: null,
    details: { why, stagedBytes, contextLength, slots: slots ?? null, ranks }
  }
}
