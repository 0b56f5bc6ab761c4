import { delay } from '../../../kernel/index.js'
import type { RouteRequest, StreamWriter } from '../../../kernel/index.js'
import type { Desk } from '../desk.js'
import { shownTo } from '../instance.js'
import { instancesOf, progressOf } from '../progress.js'
import { refuse } from '../refusals.js'
import type { routes } from '../routes.js'
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

/** DELETE /instance/{id}. */
export async function remove (desk: Desk, request: RouteRequest<typeof routes.remove>): Promise<unknown> {
  const { instance_id: instanceId } = request.params
  const commandId = desk.newId()
  await desk.instances.remove(instanceId, commandId)
  return {
    message: `Instance ${instanceId} is removed.`, command_id: commandId, instance_id: instanceId
  }
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
