import { delay, SvcError } from '../../../kernel/index.js'
import type { ModelCard, RouteRequest } from '../../../kernel/index.js'
import { checkFits, checkForm, invalid } from '../check.js'
import type { Desk } from '../desk.js'
import { errors } from '../errors.js'
import { hostsOf, instanceOf } from '../instance.js'
import { LOOK_MS } from '../planning.js'
import type { Ask, Outcome } from '../planning.js'
import { failedAttempts } from '../progress.js'
import type { routes } from '../routes.js'
import { runnerErrors, stateCard } from '../../runners/service.js'
import type { Instance, Shard } from '../../runners/service.js'
import { ranksOf } from '../view.js'
import { untilReady } from '../waiting.js'

/** Longest wait for an instance to be ready when none is given, s. */
const WAIT_SECONDS = 600
/** Plans made for one request when the master, which has newer facts, refuses. */
const TRIES = 3

/** What a placement is answered with. */
interface Placed { message: string, command_id: string, instance_id: string, model_card: unknown }

/** POST /place_instance. */
export async function place (desk: Desk, request: RouteRequest<typeof routes.place>): Promise<Placed> {
  const { body } = request
  const ask: Ask = {
    modelId: body.model_id,
    sharding: body.sharding ?? 'Pipeline',
    instanceMeta: body.instance_meta ?? 'Ring',
    minNodes: body.min_nodes ?? 1,
    excluded: body.excluded_nodes ?? [],
    force: body.force ?? false
  }
  const { outcome, entered } = await planAndEnter(desk, ask, request)
  const answer = answerOf(desk, ask, outcome, entered)
  if (body.wait === true) {
    await untilReady({
      clock: desk.clock,
      readState: desk.readState,
      instanceId: entered.instanceId,
      attempts: failedAttempts(outcome.state),
      seconds: body.timeout_seconds ?? WAIT_SECONDS,
      signal: request.signal
    })
  }
  return answer
}

interface Entered { commandId: string, instanceId: string, isNew: boolean }

async function planAndEnter (
  desk: Desk, ask: Ask, request: RouteRequest
): Promise<{ outcome: Outcome, entered: Entered }> {
  for (let tries = 1; ; tries++) {
    const outcome = await desk.planning.plan(ask, request.signal)
    const instance = instanceOf(outcome.plan, outcome.card, outcome.state, desk.newId)
    try {
      return { outcome, entered: await enter(desk, instance, request, ask.force) }
    } catch (error) {
      if (!refused(error) || tries === TRIES) throw error
      await delay(desk.clock, LOOK_MS, request.signal)
    }
  }
}

/** Refused as it stands, which another plan may not be. */
function refused (error: unknown): boolean {
  return error instanceof SvcError &&
    (Object.hasOwn(errors, error.reason) || Object.hasOwn(runnerErrors, error.reason))
}

/** Has the master enter the instance. Throws its refusal. */
async function enter (
  desk: Desk, instance: Instance, { caller }: RouteRequest, force: boolean
): Promise<Entered> {
  const commandId = desk.newId()
  const instanceId = await desk.instances.place(instance, { commandId, force })
  const isNew = instanceId === instance.RingInstance.instanceId
  const { modelId, nodeToRunner } = instance.RingInstance.shardAssignments
  if (force && isNew) desk.forced(instanceId, modelId, Object.keys(nodeToRunner), caller)
  return { commandId, instanceId, isNew }
}

function answerOf (desk: Desk, ask: Ask, { plan, card }: Outcome, entered: Entered): Placed {
  const names = plan.ranks.map(({ nodeId }) => desk.cluster.resolve(nodeId)?.name ?? nodeId).join(', ')
  const unknown = desk.planning.unknownNodes(ask.excluded)
  const ignored = unknown.length === 0 ? '' : ` Excluded but not known: ${unknown.join(', ')}.`
  const what = entered.isNew ? `is placed on ${names}. ${plan.why}` : `is placed on ${names} already.`
  return {
    message: `${ask.modelId} ${what}${ignored}`,
    command_id: entered.commandId,
    instance_id: entered.instanceId,
    model_card: stateCard(card)
  }
}

/** POST /instance. */
export async function create (desk: Desk, request: RouteRequest<typeof routes.create>): Promise<Placed> {
  const given = request.body.instance as unknown as Instance
  const { modelId, nodeToRunner } = given.RingInstance.shardAssignments
  const card = await desk.planning.card(modelId)
  checkForm(given, card)
  const state = await desk.readState()
  const { instanceId } = given.RingInstance
  if (state.instances[instanceId] !== undefined) {
    throw invalid('instance.RingInstance.instanceId', 'is the id of an instance that there is')
  }
  const instance = completed(given, card, hostsOf(ranksOf(given).map(({ nodeId }) => nodeId), state))
  checkFits({ instance, card, view: desk.planning.view(state, modelId) })
  const entered = await enter(desk, instance, request, false)
  const names = Object.keys(nodeToRunner).map((id) => desk.cluster.resolve(id)?.name ?? id).join(', ')
  return {
    message: `${modelId} is placed on ${names}${entered.isNew ? '' : ' already'}.`,
    command_id: entered.commandId,
    instance_id: entered.instanceId,
    model_card: stateCard(card)
  }
}

/** With this cluster's own card and addresses, which a client only repeats. */
function completed (
  { RingInstance: ring }: Instance, card: ModelCard, hostsByNode: ReturnType<typeof hostsOf>
): Instance {
  const modelCard = stateCard({ ...card, files: [] })
  const { runnerToShard } = ring.shardAssignments
  const shards = Object.entries(runnerToShard).map(([runnerId, shard]) => {
    const [tag, body] = Object.entries(shard)[0]!
    return [runnerId, { [tag]: { ...body, modelCard } } as Shard]
  })
  return {
    RingInstance: {
      ...ring, hostsByNode,
      shardAssignments: {
        ...ring.shardAssignments, runnerToShard: Object.fromEntries(shards) as Record<string, Shard>
      }
    }
  }
}
