import { delay, SvcError } from '../../../kernel/index.js'
import type { PlacementDeps } from '../place/enter.js'
import type { RouteRequest, StreamWriter } from '../../../kernel/index.js'
import { shownTo } from '../place/instance.js'
import { instancesOf, progressOf } from '../progress/progress.js'
import { refuse } from '../errors.js'
import type { routes } from '../routes.js'
import type { WaitingEntry } from '../waitlist.js'
import type { Facts } from '../facts.js'
import { bodyOf } from '../../runners/service.js'
import type { Instance } from '../../runners/service.js'
import { WATCH_MS } from '../progress/follow.js'

/** GET /instance/{id}. */
export async function get (deps: PlacementDeps, request: RouteRequest<typeof routes.get>): Promise<unknown> {
  const { instance_id: instanceId } = request.params
  const { instances } = deps.facts.now()
  if (!Object.hasOwn(instances, instanceId)) {
    throw refuse('instance_not_found', `No instance ${instanceId}.`)
  }
  return shownTo(request.caller, instances[instanceId]!)
}

/** DELETE /instance/{id}: of one that runs, and of one that waits for a place. */
export async function remove (
  deps: PlacementDeps, request: RouteRequest<typeof routes.remove>
): Promise<unknown> {
  const { instance_id: instanceId } = request.params
  const seconds = request.query.drain_seconds ?? deps.drainSeconds
  const commandId = deps.newId()
  const facts = deps.facts.now()
  const there = Object.hasOwn(facts.instances, instanceId) ? facts.instances[instanceId]! : undefined
  const waits = deps.waitList.get(instanceId)
  await keepAway(deps, facts, instanceId, waits)
  await endWaiting(deps, instanceId)
  // What is not there is for the master to say, which may know more.
  if (there !== undefined || waits === undefined) {
    const gone = await end(deps, instanceId, seconds, commandId).then(() => null, errorOfGone)
    // It may have been lost at that very moment.
    if (!await endWaiting(deps, instanceId) && gone !== null) throw gone
  }
  const message = there === undefined && waits !== undefined
    ? `Instance ${instanceId} waits for a place no more.`
    : outcomeOf(deps, instanceId, seconds)
  return { message, command_id: commandId, instance_id: instanceId }
}

/**
 * What would come back by itself, under whatever id, stays away only when that is written down, first of all.
 * While another instance of the model goes on, there is nothing to come back.
 */
async function keepAway (
  { waitList, returns }: PlacementDeps, facts: Facts, instanceId: string, waits: WaitingEntry | undefined
): Promise<void> {
  const { instances, waitingInstances } = facts
  const instance = Object.hasOwn(instances, instanceId) ? bodyOf(instances[instanceId]!) : undefined
  const { placement, shardAssignments } = instance ?? {}
  const modelId = shardAssignments?.modelId ?? waits?.modelId
  if (modelId === undefined) return
  const waiting = Object.values(waitingInstances).filter((one) => one.modelId === modelId)
  const others = [...instancesOf(facts, modelId), ...waiting.map((one) => one.instanceId)]
    .filter((id) => id !== instanceId)
  const own = (placement ?? waits?.intent)?.origin === 'autoplace'
  if (own || (others.length === 0 && returns(modelId))) await waitList.stop(modelId)
}

/**
 * Has it wait no more; false when it does not wait. What was given its place at that moment is not wanted
 * either.
 */
async function endWaiting (
  { instances, waitList, facts }: PlacementDeps, instanceId: string
): Promise<boolean> {
  if (waitList.get(instanceId) === undefined) return false
  await waitList.unwait(instanceId)
  const successor = Object.entries(facts.now().instances)
    .find(([, one]) => bodyOf(one).placement?.replaces === instanceId)?.[0]
  if (successor !== undefined) await instances.remove(successor, { ended: false }).catch(errorOfGone)
  return true
}

/** The error of an instance that is not there; throws every other. */
function errorOfGone (error: unknown): SvcError {
  if (error instanceof SvcError && error.reason === 'instance_not_found') return error
  throw error
}

async function end (
  { instances }: PlacementDeps, instanceId: string, seconds: number, commandId: string
): Promise<void> {
  if (seconds === 0) await instances.remove(instanceId, { commandId })
  else await instances.drain(instanceId, { seconds, commandId })
}

/** How it stands now, in a sentence. */
function outcomeOf ({ facts, clock }: PlacementDeps, instanceId: string, seconds: number): string {
  const { instances } = facts.now()
  if (seconds === 0 || !Object.hasOwn(instances, instanceId)) return `Instance ${instanceId} is removed.`
  const until = bodyOf(instances[instanceId]!).drainUntil ??
    new Date(clock.now() + seconds * 1000).toISOString()
  return `Instance ${instanceId} takes no new requests; it is removed when those it has have ended, ` +
    `at the latest at ${until}.`
}

/** A client that waits hears at least this often that the stream is alive, ms. */
const KEEP_ALIVE_MS = 10_000

/** GET /instance/await. */
export async function awaitReady (
  deps: PlacementDeps, request: RouteRequest<typeof routes.await>
): Promise<void> {
  const { query, caller } = request
  const stream = request.open({
    contentType: 'text/event-stream', headers: { 'cache-control': 'no-cache', 'x-accel-buffering': 'no' }
  })
  const instance = await firstReady(deps, request, stream).catch((error: unknown) => {
    if (!request.signal.aborted) throw error
    return null
  })
  if (instance === null) return
  const event = instance === undefined
    ? { type: 'timeout', model_id: query.model_id }
    : { type: 'ready', instance: shownTo(caller, instance) }
  await stream.write(`data: ${JSON.stringify(event)}\n\n`)
}

/** The first instance of the model that is ready; undefined when the time is up. */
async function firstReady (
  { clock, facts: reader }: PlacementDeps, { query, signal }: RouteRequest<typeof routes.await>,
  stream: StreamWriter
): Promise<Instance | undefined> {
  const until = clock.mono() + query.timeout_seconds * 1000
  let said = -Infinity
  for (;;) {
    const facts = reader.recent()
    for (const id of instancesOf(facts, query.model_id)) {
      const progress = progressOf(facts, id)
      if (progress.kind === 'ready') return progress.instance
    }
    const now = clock.mono()
    if (now >= until) return undefined
    if (now - said >= KEEP_ALIVE_MS) {
      await stream.write(': keep-alive\n\n')
      said = now
    }
    await delay(clock, Math.min(WATCH_MS, until - now), signal)
  }
}
