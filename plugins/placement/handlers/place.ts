import type { ModelCard, RouteRequest } from '../../../kernel/index.js'
import { checkFits, checkForm, invalid } from '../place/check.js'
import { enter, planAndEnter } from '../place/enter.js'
import type { Entered, PlacementDeps, Wish } from '../place/enter.js'
import { intentShownBy, withHosts } from '../place/instance.js'
import type { Ask, Outcome } from '../place/planning.js'
import { failedAttempts } from '../progress/progress.js'
import type { routes } from '../routes.js'
import { bodyOf, stateCard } from '../../runners/service.js'
import type { Instance, Shard } from '../../runners/service.js'
import { ranksOf } from '../place/view.js'
import { untilReady } from '../progress/follow.js'

/** Longest wait for an instance to be ready when none is given, s. */
const WAIT_SECONDS = 600

/** What a placement is answered with. */
interface Placed { message: string, command_id: string, instance_id: string, model_card: unknown }

/** POST /place_instance. */
export async function place (
  deps: PlacementDeps, request: RouteRequest<typeof routes.place>
): Promise<Placed> {
  const { body } = request
  const wish: Wish = {
    modelId: body.model_id,
    sharding: body.sharding ?? 'Pipeline',
    instanceMeta: body.instance_meta,
    minNodes: body.min_nodes ?? 1,
    excluded: deps.planning.refs(body.excluded_nodes, body.excluded_node_ids),
    force: body.force ?? false,
    origin: 'request',
    ttlSeconds: body.ttl_seconds ?? null
  }
  const { outcome, entered } = await planAndEnter(deps, wish, request)
  const answer = answerOf(deps, wish, outcome, entered)
  if (body.wait !== true) return answer
  const instanceId = await untilReady({
    clock: deps.clock,
    facts: deps.facts,
    instanceId: entered.instanceId,
    attempts: failedAttempts(outcome.facts),
    seconds: body.timeout_seconds ?? WAIT_SECONDS,
    signal: request.signal
  })
  return { ...answer, instance_id: instanceId }
}

function answerOf (deps: PlacementDeps, ask: Ask, { plan, card }: Outcome, entered: Entered): Placed {
  const names = plan.ranks.map(({ nodeId }) => deps.cluster.resolve(nodeId)?.name ?? nodeId).join(', ')
  const unknown = deps.planning.unknownNodes(ask.excluded)
  const ignored = unknown.length === 0 ? '' : ` Excluded but not known: ${unknown.join(', ')}.`
  const what = entered.isNew ? `is placed on ${names}. ${plan.why}`
    : `is placed on ${names} already, as it was asked for then.`
  return {
    message: `${ask.modelId} ${what}${ignored}`,
    command_id: entered.commandId,
    instance_id: entered.instanceId,
    model_card: stateCard(card)
  }
}

/** POST /instance. */
export async function create (
  deps: PlacementDeps, request: RouteRequest<typeof routes.create>
): Promise<Placed> {
  const given = request.body.instance as unknown as Instance
  const { modelId, nodeToRunner } = bodyOf(given).shardAssignments
  const card = await deps.planning.card(modelId)
  checkForm(given, card)
  const facts = deps.facts.now()
  const { instanceId } = bodyOf(given)
  if (facts.instances[instanceId] !== undefined) {
    throw invalid(`instance.${Object.keys(given)[0]}.instanceId`, 'is the id of an instance that there is')
  }
  const nodeIds = ranksOf(given).map(({ nodeId }) => nodeId)
  const instance = withHosts(completed(given, card), nodeIds, facts.nodes)
  checkFits({ instance, card, view: deps.planning.view(facts, modelId) })
  const entered = await enter(deps, instance, request.caller, false)
  const names = Object.keys(nodeToRunner).map((id) => deps.cluster.resolve(id)?.name ?? id).join(', ')
  return {
    message: `${modelId} is placed on ${names}${entered.isNew ? '' : ' already'}.`,
    command_id: entered.commandId,
    instance_id: entered.instanceId,
    model_card: stateCard(card)
  }
}

/** With this cluster's own card and intent, which a client only repeats. */
function completed (given: Instance, card: ModelCard): Instance {
  const { drainUntil: _, modelDigest: _digest, ...body } = bodyOf(given)
  const ring = { ...body, placement: intentShownBy(given) }
  const modelCard = stateCard({ ...card, files: [] })
  const { runnerToShard } = ring.shardAssignments
  const shards = Object.entries(runnerToShard).map(([runnerId, shard]) => {
    const [tag, body] = Object.entries(shard)[0]!
    return [runnerId, { [tag]: { ...body, modelCard } } as Shard]
  })
  const shardAssignments = {
    ...ring.shardAssignments, runnerToShard: Object.fromEntries(shards) as Record<string, Shard>
  }
  if (!('LlamaRpcInstance' in given)) return { RingInstance: { ...ring, shardAssignments } }
  const { driverNode } = given.LlamaRpcInstance
  return { LlamaRpcInstance: { ...ring, shardAssignments, driverNode, donorEndpoints: {} } }
}
