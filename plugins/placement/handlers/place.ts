import { badField, type ModelCard, type NodeReport, type RouteRequest } from '../../../kernel/index.js'
import { contextOf } from '../../runners/cards/memory-forecast.js'
import { checkFits, checkForm } from '../place/check.js'
import {
  commitInstance, placeWithRoom, planAndEnter, type CommittedInstance, type PlacementRequest
} from '../place/commit.js'
import { idOf, instanceOf, intentShownBy, modelOf, nodesOf, ranksOf, visibleTo } from '../place/instance.js'
import type { Planning } from '../place/planning.js'
import { policyText } from '../place/policies.js'
import { untilReady } from '../progress/follow.js'
import { failedAttempts } from '../progress/progress.js'
import type { routes } from '../routes.js'
import { bodyOf, changed, stateCard, type Instance } from '../../runners/service.js'
import { randomUUID } from 'node:crypto'
import { previews as combinations, type Preview } from '../planner/index.js'

/** Default limit in seconds on the wait for an instance to become ready. */
const WAIT_SECONDS = 600

interface Placed { message: string, command_id: string, instance_id: string, model_card: unknown }

const answerOf = (message: string, card: ModelCard, { commandId, instanceId }: CommittedInstance): Placed =>
  ({ message, command_id: commandId, instance_id: instanceId, model_card: stateCard(card) })

export async function place (
  planning: Planning, request: RouteRequest<typeof routes.place>
): Promise<Placed> {
  const { body, signal } = request
  const asked: PlacementRequest = {
    modelId: body.model_id, sharding: body.sharding ?? 'Pipeline', instanceMeta: body.instance_meta,
    minNodes: body.min_nodes ?? 1, contextLength: body.context_length, slots: body.slots,
    chatTemplate: body.chat_template, engine: body.engine,
    excluded: planning.refs(body.excluded_nodes, body.excluded_node_ids), force: body.force ?? false,
    origin: 'request', ttlSeconds: body.ttl_seconds ?? null
  }
  const { clock } = planning.ctx
  const until = clock.mono() + (body.timeout_seconds ?? WAIT_SECONDS) * 1000
  const { outcome: { plan, card, facts }, entered } = body.make_room === true
    ? await placeWithRoom(planning, asked, request, until)
    : await planAndEnter(planning, asked, request)
  const names = plan.ranks.map(({ nodeId }) => planning.nameOf(nodeId)).join(', ')
  const what = entered.isNew ? `is placed on ${names}. ${plan.why}`
    : `is already placed on ${names}, with its earlier settings.`
  const differs = [body.context_length, body.slots, body.chat_template, body.engine].some((one) =>
    one !== undefined)
  const stays = entered.isNew || !differs ? ''
    : ` Its context, slots and template stay; to change them, \`svc stop ${asked.modelId}\` first.`
  const unknown = planning.unknownNodes(asked.excluded)
  const ignored = unknown.length === 0 ? '' : ` Unknown excluded nodes: ${unknown.join(', ')}.`
  const { chat_template: untold } = asked.chatTemplate === undefined ? card.support : {}
  const note = untold === undefined ? '' : ` Chat template: ${untold}.`
  const answer = answerOf(`${asked.modelId} ${what}${stays}${ignored}${note}`, card, entered)
  if (body.wait !== true) return answer
  const { instanceId } = entered
  const seconds = Math.max(0, Math.ceil((until - clock.mono()) / 1000))
  const ready = await untilReady(planning, { instanceId, attempts: failedAttempts(facts), seconds, signal })
  return { ...answer, instance_id: ready }
}

export async function create (
  planning: Planning, request: RouteRequest<typeof routes.create>
): Promise<Placed> {
  const given = request.body.instance as unknown as Instance
  const modelId = modelOf(given)
  const card = await planning.card(modelId)
  checkForm(given, card)
  await planning.readMemory()
  const facts = planning.facts.now()
  if (facts.instances[idOf(given)] !== undefined) {
    throw badField(`instance.${Object.keys(given)[0]}.instanceId`, 'is the id of an existing instance')
  }
  const instance = completed(given, card, facts.nodes)
  checkFits(instance, card, planning.view(facts, modelId))
  planning.checkSource(modelId)
  // Only the driver needs the model files; donors get the weights from the driver.
  await planning.checkRoom(modelId, nodesOf(given).slice(0, 'LlamaRpcInstance' in given ? 1 : Infinity))
  const entered = await commitInstance(planning, instance, request.caller, false)
  const names = nodesOf(given).map((id) => planning.nameOf(id)).join(', ')
  return answerOf(`${modelId} is ${entered.isNew ? '' : 'already '}placed on ${names}.`, card, entered)
}

/** Replaces the card, addresses and intent that the client sent with values that this node computes. */
function completed (given: Instance, card: ModelCard, nodes: readonly NodeReport[]): Instance {
  const { contextTokenLimit, systemRole, slots } = bodyOf(given)
  const intent = intentShownBy(given)
  const all = ranksOf(given)
  const ranks = all.map(({ nodeId, shard: { startLayer, endLayer } }) => ({ nodeId, startLayer, endLayer }))
  const ids = [...all.map(({ runnerId }) => runnerId), idOf(given)]
  const plan = { ...intent, ranks, contextLength: contextOf(card, contextTokenLimit) }
  const made = instanceOf(plan, card, nodes, () => ids.shift()!, intent)
  return changed(made, { systemRole, ...slots === undefined ? {} : { slots } })
}

export async function setPolicy (
  planning: Planning, { params: { model_id: modelId }, body }: RouteRequest<typeof routes.policy>
) {
  const { min = 0, max = 1 } = body.replicas ?? {}
  if (max < min) throw badField('replicas.max', `must be at least ${min}, which is min`)
  const stored = planning.policy(modelId)
  // Also accepts the model of a stored policy, whose card may have been deleted since.
  if (stored === undefined) await planning.card(modelId)
  // Without changes it is only shown, and that of svc.yaml stays in force.
  const policy = Object.keys(body).length === 0 ? stored ?? { from: 'svc.yaml' as const }
    : await planning.ctx.command('policy', { modelId, patch: body, from: 'request' })
  return { message: `Policy of ${modelId}: ${policyText(policy)}.`, model_id: modelId, policy }
}

export async function placement (
  planning: Planning, request: RouteRequest<typeof routes.placement>
): Promise<unknown> {
  const { query, caller, signal } = request
  const { plan, card, facts } = await planning.plan({
    modelId: query.model_id, sharding: query.sharding, instanceMeta: query.instance_meta,
    minNodes: query.min_nodes, contextLength: query.context_length, slots: query.slots,
    excluded: planning.refs(query.excluded_node_ids, query.excluded_nodes), force: false
  }, signal)
  return visibleTo(caller, instanceOf(plan, card, facts.nodes, randomUUID))
}

export async function previews (
  planning: Planning, { query, caller }: RouteRequest<typeof routes.previews>
): Promise<unknown> {
  const card = await planning.card(query.model_id)
  await planning.readMemory()
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
    ...shape, instance: instance(result),
    memory_delta_by_node: Object.fromEntries(ranks.map(({ nodeId, neededBytes }) => [nodeId, neededBytes])),
    error: null, reason: null, details: { why, stagedBytes, contextLength, slots: slots ?? null, ranks }
  }
}
