import { randomUUID } from 'node:crypto'
import { delay, SvcError, noSuchNode } from '../../../kernel/index.js'
import type { RouteRequest, StreamWriter, NodeView } from '../../../kernel/index.js'
import { refuse } from '../errors.js'
import type { Facts } from '../facts.js'
import { idOf, modelOf, visibleTo, nodesOf } from '../place/instance.js'
import type { Planning } from '../place/planning.js'
import { WATCH_MS } from '../progress/follow.js'
import { instancesOf, progressOf } from '../progress/progress.js'
import type { routes } from '../routes.js'
import type { WaitingEntry } from '../waitlist.js'
import { bodyOf } from '../../runners/service.js'
import type { Instance, PlacementIntent } from '../../runners/service.js'

const there = ({ instances }: Pick<Facts, 'instances'>, instanceId: string): Instance | undefined =>
  Object.hasOwn(instances, instanceId) ? instances[instanceId] : undefined

export async function get (planning: Planning, request: RouteRequest<typeof routes.get>): Promise<unknown> {
  const { instance_id: instanceId } = request.params
  const instance = there(planning.facts.now(), instanceId)
  if (instance === undefined) throw refuse('instance_not_found', `No instance ${instanceId}.`)
  return visibleTo(request.caller, instance)
}

export async function remove (
  planning: Planning, request: RouteRequest<typeof routes.remove>
): Promise<unknown> {
  const { config, deps: { instances }, sections: { waiting } } = planning.ctx
  const { instance_id: instanceId } = request.params
  const seconds = request.query.drain_seconds ?? config.drain_seconds
  const commandId = randomUUID()
  const facts = planning.facts.now()
  const instance = there(facts, instanceId)
  const waits = waiting.get(instanceId)
  const intent = instance === undefined ? waits?.intent : bodyOf(instance).placement
  checkUnkept(planning, instanceId, intent)
  if (!request.query.unload || intent?.origin === 'autoplace') {
    await keepAway(planning, facts, instanceId, instance, waits)
  }
  await endWaiting(planning, instanceId)
  await endMoving(planning, facts, instanceId)
  const answer = (message: string): object => ({ message, command_id: commandId, instance_id: instanceId })
  if (instance === undefined && waits !== undefined) {
    return answer(`Instance ${instanceId} no longer waits for a place.`)
  }
  // Leave it to the master to decide whether the instance exists, because its state may be newer.
  const ended = seconds === 0
    ? instances.remove(instanceId, { commandId })
    : instances.drain(instanceId, { seconds, commandId })
  const gone = await ended.then(() => null, errorOfGone)
  // Remove its waiting entry too: the instance may have been lost and may now wait for another node.
  if (!await endWaiting(planning, instanceId) && gone !== null) throw gone
  return answer(outcomeOf(planning, instanceId, seconds))
}

/** Throws if a role needs the instance; the plugin of the role provides the error. */
function checkUnkept (planning: Planning, instanceId: string, intent: PlacementIntent | undefined): void {
  const keeping = planning.roles.get(intent?.systemRole ?? '')
  if (keeping !== undefined && keeping.wanted().models.length > 0) throw keeping.refusal(instanceId)
}

/**
 * Records the model as stopped before the instance is removed; otherwise autoplace, on-demand requests or
 * roles would place the model again. Does nothing while another instance of the model remains, or as many as
 * its policy keeps.
 */
async function keepAway (
  planning: Planning, facts: Facts, instanceId: string, instance: Instance | undefined,
  waits: WaitingEntry | undefined
): Promise<void> {
  const modelId = instance === undefined ? waits?.modelId : modelOf(instance)
  if (modelId === undefined) return
  const waiting = Object.values(facts.waitingInstances).filter((one) => one.modelId === modelId)
  const others = [...instancesOf(facts, modelId), ...waiting.map((one) => one.instanceId)]
    .filter((id) => id !== instanceId)
  const intent = (instance === undefined ? undefined : bodyOf(instance).placement) ?? waits?.intent
  const enough = others.length > 0 || !planning.returns(modelId)
  if (intent?.origin !== 'autoplace' && enough && others.length >= planning.minimum(modelId)) return
  const { clock, command } = planning.ctx
  await command('stop', { modelId, since: new Date(clock.now()).toISOString() })
}

/**
 * Removes the waiting entry, and any instance that has been placed for it in the meantime. Resolves to false
 * if there was no entry.
 */
async function endWaiting ({ ctx, facts }: Planning, instanceId: string): Promise<boolean> {
  const { command, deps: { instances }, sections: { waiting } } = ctx
  if (waiting.get(instanceId) === undefined) return false
  await command('unwait', { id: instanceId })
  const successor = Object.values(facts.now().instances)
    .find((one) => bodyOf(one).placement?.replaces === instanceId)
  if (successor !== undefined) await instances.remove(idOf(successor), { ended: false }).catch(errorOfGone)
  return true
}

/** Cancels the replacement that was started because this instance's node is drained. */
async function endMoving ({ ctx }: Planning, facts: Facts, instanceId: string): Promise<void> {
  const { command, deps: { instances }, sections: { waiting } } = ctx
  for (const { key, value } of [...waiting.entries()]) {
    if (value.intent.moves === instanceId) await command('unwait', { id: key })
  }
  const before = there(facts, instanceId)
  if (before === undefined || bodyOf(before).drainUntil !== undefined) return
  const successor = Object.values(facts.instances).find((one) => bodyOf(one).placement?.moves === instanceId)
  if (successor !== undefined) await instances.remove(idOf(successor), { ended: false }).catch(errorOfGone)
}

function errorOfGone (error: unknown): SvcError {
  if (error instanceof SvcError && error.reason === 'instance_not_found') return error
  throw error
}

function outcomeOf ({ ctx: { clock }, facts }: Planning, instanceId: string, seconds: number): string {
  const instance = there(facts.now(), instanceId)
  if (seconds === 0 || instance === undefined) return `Instance ${instanceId} is removed.`
  const until = bodyOf(instance).drainUntil ?? new Date(clock.now() + seconds * 1000).toISOString()
  return `Instance ${instanceId} accepts no new requests; it is removed when its open requests have ` +
    `ended, at the latest at ${until}.`
}

/** Milliseconds between keep-alive comments in the event stream. */
const KEEP_ALIVE_MS = 10_000

export async function awaitReady (
  planning: Planning, request: RouteRequest<typeof routes.await>
): Promise<void> {
  const { query, caller } = request
  const stream = request.open({ contentType: 'text/event-stream' })
  const instance = await firstReady(planning, request, stream).catch((error: unknown) => {
    if (!request.signal.aborted) throw error
    return null
  })
  if (instance === null) return
  const event = instance === undefined
    ? { type: 'timeout', model_id: query.model_id }
    : { type: 'ready', instance: visibleTo(caller, instance) }
  await stream.write(`data: ${JSON.stringify(event)}\n\n`)
}

async function firstReady (
  { ctx: { clock }, facts: reader }: Planning, { query, signal }: RouteRequest<typeof routes.await>,
  stream: StreamWriter
): Promise<Instance | undefined> {
  const until = clock.mono() + query.timeout_seconds * 1000
  let said = -Infinity
  for (;;) {
    const facts = reader.recent()
    const ready = instancesOf(facts, query.model_id).find((id) => progressOf(facts, id).kind === 'ready')
    const now = clock.mono()
    if (ready !== undefined || now >= until) return ready === undefined ? undefined : facts.instances[ready]
    if (now - said >= KEEP_ALIVE_MS) {
      await stream.write(': keep-alive\n\n')
      said = now
    }
    await delay(clock, Math.min(WATCH_MS, until - now), signal)
  }
}

/**
 * Handler of PUT and DELETE /nodes/{node}/drain. Only records the drain; the keeper on the master moves the
 * instances.
 */
export async function drain (
  planning: Planning, { params, caller }: RouteRequest<{ readonly params: typeof routes.drain.params }>,
  drained: boolean
) {
  const { command, clock, emit } = planning.ctx
  const node = nodeOf(planning, params.node)
  const { nodeId, installId, name } = node
  const { changed } = drained
    ? await command('drain', { installId, since: new Date(clock.now()).toISOString(), by: caller.id })
    : await command('undrain', { installId })
  if (changed) emit(drained ? 'NodeDrained' : 'NodeUndrained', { nodeId, name, by: caller.id })
  const instances = Object.values(planning.facts.now().instances)
    .filter((one) => nodesOf(one).includes(nodeId)).map(idOf)
  const moving = instances.length === 0
    ? 'It runs nothing.'
    : `Its instances (${instances.length} now) move to other nodes, each once its replacement is ready.`
  const message = drained ? `${name} is drained and gets no new instances. ${moving}`
    : changed ? `${name} runs models again.` : `${name} was not drained.`
  return { message, node_id: nodeId, drained, changed, instances }
}

/** Finds the node even if it is not live, because a node can be drained before it returns. */
function nodeOf ({ ctx }: Planning, ref: string): NodeView {
  const node = ctx.deps.cluster.resolve(ref)
  if (node === undefined) throw noSuchNode(ref, ctx.deps.cluster.nodes())
  return node
}
