import { delay } from '../../../kernel/index.js'
import type { RouteRequest, StreamWriter } from '../../../kernel/index.js'
import type { Desk } from '../desk.js'
import { shownTo } from '../instance.js'
import { instancesOf, progressOf } from '../progress.js'
import { refuse } from '../refusals.js'
import type { routes } from '../routes.js'
import type { WaitingEntry } from '../sections.js'
import type { Instance } from '../../runners/service.js'
import { WATCH_MS } from '../waiting.js'

/** GET /instance/{id}. */
export async function get (desk: Desk, request: RouteRequest<typeof routes.get>): Promise<unknown> {
  const { instance_id: instanceId } = request.params
  const { instances } = await desk.readState()
  if (!Object.hasOwn(instances, instanceId)) {
    throw refuse('instance_not_found', `No instance ${instanceId}.`)
  }
  return shownTo(request.caller, instances[instanceId]!)
}

/** DELETE /instance/{id}: of one that runs, and of one that waits for a place. */
export async function remove (desk: Desk, request: RouteRequest<typeof routes.remove>): Promise<unknown> {
  const { instance_id: instanceId } = request.params
  const seconds = request.query.drain_seconds ?? desk.drainSeconds
  const commandId = desk.newId()
  const { instances } = await desk.readState()
  const there = Object.hasOwn(instances, instanceId) ? instances[instanceId]! : undefined
  const waits = desk.standing.waits(instanceId)
  await keepAway(desk, there, waits)
  if (waits !== undefined) await desk.standing.unwait(instanceId)
  // What is not there is for the master to say, which may know more.
  if (there !== undefined || waits === undefined) await end(desk, instanceId, seconds, commandId)
  const message = there === undefined && waits !== undefined
    ? `Instance ${instanceId} waits for a place no more.`
    : await outcomeOf(desk, instanceId, seconds)
  return { message, command_id: commandId, instance_id: instanceId }
}

/** What the cluster places by itself stays away only when that is written down, first of all. */
async function keepAway (
  { standing }: Desk, there: Instance | undefined, waits: WaitingEntry | undefined
): Promise<void> {
  const { placement, shardAssignments } = there?.RingInstance ?? {}
  const modelId = shardAssignments?.modelId ?? waits?.modelId
  if (modelId === undefined || (placement ?? waits?.intent)?.origin !== 'autoplace') return
  await standing.stop(modelId)
}

async function end (
  { instances }: Desk, instanceId: string, seconds: number, commandId: string
): Promise<void> {
  if (seconds === 0) await instances.remove(instanceId, commandId)
  else await instances.drain(instanceId, { seconds, commandId })
}

/** How it stands now, in a sentence. */
async function outcomeOf ({ readState, clock }: Desk, instanceId: string, seconds: number): Promise<string> {
  const { instances } = await readState()
  if (seconds === 0 || !Object.hasOwn(instances, instanceId)) return `Instance ${instanceId} is removed.`
  const until = instances[instanceId]!.RingInstance.drainUntil ??
    new Date(clock.now() + seconds * 1000).toISOString()
  return `Instance ${instanceId} takes no new requests; it is removed when those it has have ended, ` +
    `at the latest at ${until}.`
}

/** A client that waits hears at least this often that the stream is alive, ms. */
const KEEP_ALIVE_MS = 10_000

/** GET /instance/await. */
export async function awaitReady (desk: Desk, request: RouteRequest<typeof routes.await>): Promise<void> {
  const { query, caller } = request
  const stream = request.open({
    contentType: 'text/event-stream', headers: { 'cache-control': 'no-cache', 'x-accel-buffering': 'no' }
  })
  const instance = await firstReady(desk, request, stream).catch((error: unknown) => {
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
  { clock, readState }: Desk, { query, signal }: RouteRequest<typeof routes.await>, stream: StreamWriter
): Promise<Instance | undefined> {
  const until = clock.mono() + query.timeout_seconds * 1000
  let said = -Infinity
  for (;;) {
    const state = await readState()
    for (const id of instancesOf(state, query.model_id)) {
      const progress = progressOf(state, id)
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
