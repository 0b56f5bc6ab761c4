/** Helpers for tests of model instances in a cluster of real processes, seen through any node's API. */
import { startCluster, type Cluster, type Member } from './cluster-kit.js'
import { does, TTS } from './engine.js'
import {
  ask, readStream, open, refusal, stream, streamed, readBody, type Answer, type Ask, type Refusal
} from './http.js'
import { fixture, sleep, until, type TestNode } from './kit.js'
import type { Test } from 'tap'
import type { RingInstance } from '../../plugins/runners/service.js'

/** Plugin settings by plugin name, as in svc.yaml. */
export type Plugins = Record<string, Record<string, unknown>>

/** svc.yaml with the faulty engine and without autoplacement. */
export function instancesConfig (plugins: Plugins = {}, more: Record<string, unknown> = {}):
Record<string, unknown> {
  return {
    limits: { calls_at_once: 512, streams_per_token: 2048 },
    ...more,
    plugins: {
      faults: { module: fixture('faults.mjs') },
      ...plugins,
      placement: { autoplace: [], ...plugins['placement'] }
    }
  }
}

export async function instancesCluster (t: Test, options: {
  nodes?: number, joined?: number, plugins?: Plugins, config?: Record<string, unknown>,
  env?: Record<string, string>
} = {}): Promise<Cluster> {
  const { plugins, config, ...rest } = options
  return await startCluster(t, { ...rest, config: instancesConfig(plugins, config) })
}

/** Sends a request; a node that is silent for `seconds` fails the test instead of blocking it. */
export async function askWithin (
  at: TestNode, path: string, options: Ask = {}, seconds = 60
): Promise<Answer> {
  const late = new AbortController()
  const answer = ask(at, path, options)
  answer.catch(() => {})
  try {
    const first = await Promise.race([answer, sleep(seconds * 1000, late.signal)])
    if (first === undefined) throw new Error(`no answer to ${path} within ${seconds} s`)
    return first
  } finally {
    late.abort()
  }
}

/** Sends POST /place_instance; returns the answer, which may be a refusal. */
export const placing = async (at: TestNode, model: string, more: object = {}): Promise<Answer> =>
  await askWithin(at, '/place_instance', { body: { model_id: model, ...more } }, 120)

/** Places a model and waits until it is ready; returns the instance id. Throws if the node refuses. */
export async function place (at: TestNode, model: string, more: object = {}): Promise<string> {
  const answer = await placing(at, model, { wait: true, timeout_seconds: 60, ...more })
  if (answer.status !== 200) throw new Error(`place ${model}: ${answer.status} ${answer.text}`)
  return (answer.json as { instance_id: string }).instance_id
}

/** Places a model on one member only; waits until every node lists the instance. */
export async function placeOn (cluster: Cluster, on: Member, model: string, more: object = {}):
Promise<string> {
  const others = cluster.members.filter((m) => m !== on).map(({ name }) => name)
  const id = await place(on.node, model, { excluded_nodes: others, ...more })
  // Waits again, because nodes learn of each other's runners a moment later.
  for (const { node } of cluster.up()) {
    await until(`${model} to be known`, async () =>
      ((await askWithin(node, `/models/${model}/availability`)).json as { available: boolean }).available)
  }
  return id
}

export const removing = async (at: TestNode, id: string, query = ''): Promise<Answer> =>
  await askWithin(at, `/instance/${id}${query}`, { method: 'DELETE' })

export interface View {
  localNodeId: string
  instances: Record<string, { RingInstance: RingInstance }>
  runners: Record<string, Record<string, unknown>>
  tasks: Record<string, { Inference?: { taskId: string, commandId: string, instanceId: string,
    modelId: string, status: string } }>
  instanceFailures: { instanceId: string, modelId: string, errorCode: string, errorMessage: string,
    affectedNodeIds: string[] }[]
}

export const view = async (at: TestNode): Promise<View> => (await askWithin(at, '/state')).json as View

/** The instances of a model as a node lists them. */
export async function instancesOf (at: TestNode, model: string): Promise<RingInstance[]> {
  return Object.values((await view(at)).instances).map(({ RingInstance: ring }) => ring)
    .filter((ring) => ring.shardAssignments.modelId === model)
}

export const nodesOf = (ring: RingInstance): string[] => Object.keys(ring.shardAssignments.nodeToRunner)

/** The member that runs an instance. */
export function homeOf (cluster: Cluster, ring: RingInstance): Member {
  const [nodeId] = nodesOf(ring)
  const found = cluster.members.find((m) => m.up && m.node.nodeId === nodeId)
  if (found === undefined) throw new Error(`instance ${ring.instanceId} is on ${nodeId}, which is down`)
  return found
}

/** The instance with that id, as a node lists it. */
export async function instance (at: TestNode, id: string): Promise<RingInstance> {
  return await until(`instance ${id}`, async () => (await view(at)).instances[id]?.RingInstance)
}

/** Sends a short request; returns `completed` or its failure reason. */
export async function outcomeOf (at: TestNode, model: string): Promise<string> {
  try {
    const heard = await streamed(at, TTS, does(model, 'count', { chunks: 2 }))
    return heard.terminals === 1 && heard.last?.header.kind === 'completed'
      ? 'completed' : heard.last?.header.error?.reason ?? 'cut'
  } catch (error) {
    const { text } = error as { text?: string }
    if (text === undefined) return String(error)
    return (JSON.parse(text) as Refusal).error.reason
  }
}

/** Waits until a model answers at every one of these members. */
export async function answersAt (on: readonly Member[], model: string, seconds = 30): Promise<void> {
  const last: string[] = []
  await until(`${model} to answer at ${on.map(({ name }) => name).join(', ')}`, async () => {
    const all = await Promise.all(on.map(async ({ node }) => await outcomeOf(node, model)))
    last.splice(0, last.length, ...all)
    return all.every((word) => word === 'completed')
  }, { seconds }).catch((error: Error) => {
    throw new Error(`${error.message}; they say ${last.join(', ')}`, { cause: error })
  })
}

/** How a request ended for its client. `cut`: the connection broke off. */
export interface End { terminals: number, kind: string | null, reason: string | null,
  retryable: boolean | null, cut: boolean, seconds: number }

export interface Open { at: TestNode, model: string, commandId: string, end: Promise<End>, leave (): void }

/** Faulty-engine options for an answer that never ends. */
export const ENDLESS: object = { bytes: 100, delayMs: 20 }

/** Opens a stream of frames; resolves when the first frame arrives. */
export async function openFrames (at: TestNode, model: string, options: object = ENDLESS): Promise<Open> {
  const opened = await stream(at, TTS, does(model, 'count', options))
  await opened.frames.next()
  const end = readStream(opened).then(({ last, terminals }): End => {
    const { kind = null, error } = last?.header ?? {}
    return { terminals, kind: terminals === 0 ? null : kind, reason: error?.reason ?? null,
      retryable: error?.retryable ?? null, cut: terminals === 0, seconds: performance.now() / 1000 }
  })
  return { at, model, commandId: String(opened.headers['x-svc-command-id']), end,
    leave: () => { opened.abort() } }
}

/** Opens a stream of server-sent events through the OpenAI API; resolves when the first event arrives. */
export async function openEvents (at: TestNode, model: string, options: object = ENDLESS): Promise<Open> {
  const response = await open(at, '/v1/audio/speech', { body: { model, input: 'x', stream_format: 'sse',
    instructions: JSON.stringify({ do: 'count', ...options }) } })
  if (response.statusCode !== 200) {
    throw new Error(`${response.statusCode}: ${(await readBody(response)).toString()}`)
  }
  return { at, model, commandId: String(response.headers['x-svc-command-id']), end: eventsEnd(response),
    leave () { response.destroy() } }
}

interface Said { type?: string, error?: { reason: string, retryable: boolean } }

async function eventsEnd (response: AsyncIterable<Buffer>): Promise<End> {
  let text = ''
  let cut = false
  try { for await (const part of response) text += part.toString() } catch { cut = true }
  const all = text.split('\n').filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as Said)
  const last = all.filter(({ type, error }) => type === 'speech.audio.done' || error !== undefined)
  const { reason = null, retryable = null } = last.at(-1)?.error ?? {}
  return { terminals: last.length, kind: last.length === 0 ? null : reason === null ? 'completed' : 'failed',
    reason, retryable, cut: cut || last.length === 0, seconds: performance.now() / 1000 }
}

/** A non-streaming request, whose response status is sent only with the first output, after `delayMs`. */
export async function heldRequest (at: TestNode, model: string, delayMs: number, headers: Record<string,
  string> = {}): Promise<Answer> {
  return await askWithin(at, '/v1/audio/speech', { headers, body: { model, input: 'x',
    instructions: JSON.stringify({ do: 'late', delayMs }) } })
}

/** Waits until these members together report `count` running tasks for a model. */
export async function working (on: readonly Member[], model: string, count: number): Promise<void> {
  await until(`${count} tasks of ${model}`, async () => {
    const all = await Promise.all(on.map(async ({ node }) => await tasksOn(node, model)))
    return all.reduce((a, b) => a + b, 0) === count
  })
}

/** Number of tasks for a model in a node's own runners. */
export async function tasksOn (at: TestNode, model: string): Promise<number> {
  const { supervisorRunners } = (await askWithin(at, '/v1/diagnostics/node')).json as {
    supervisorRunners: { modelId: string, inProgressTasks: string[] }[] }
  return supervisorRunners.filter((r) => r.modelId === model)
    .reduce((sum, { inProgressTasks }) => sum + inProgressTasks.length, 0)
}

/** The end of a stream, or `hangs` if there is none within `seconds`. */
export async function endWithin (opened: Open, seconds: number): Promise<End | 'hangs'> {
  const enough = new AbortController()
  try {
    return await Promise.race([opened.end, sleep(seconds * 1000, enough.signal).then(() => 'hangs' as const)])
  } finally {
    enough.abort()
  }
}

/**
 * Waits until all members list the same instances, every one ready and not draining, and no other runner
 * process is left; returns the instances.
 */
export async function settled (on: readonly Member[], seconds = 30): Promise<RingInstance[]> {
  let last = ''
  return await until('the instances to settle', async () => {
    const views = await Promise.all(on.map(({ node }) => view(node)))
    const [first] = views
    const rings = Object.values(first!.instances).map(({ RingInstance: ring }) => ring)
    const ids = (v: View): string => Object.keys(v.instances).sort().join()
    const named = rings.flatMap((ring) => Object.keys(ring.shardAssignments.runnerToShard))
    const processes = on.reduce((sum, { node }) => sum + node.runners().length, 0)
    last = JSON.stringify({ instances: views.map(ids), named: named.length, processes,
      draining: rings.filter((ring) => ring.drainUntil !== undefined).length,
      runners: views.map((v) => v.runners) })
    const serves = (v: View, id: string): boolean =>
      ['RunnerReady', 'RunnerRunning'].includes(Object.keys(v.runners[id] ?? {})[0] ?? 'none')
    const ready = views.every((v) => ids(v) === ids(first!) && named.every((id) => serves(v, id)))
    const staying = rings.every(({ drainUntil }) => drainUntil === undefined)
    return ready && staying && processes === named.length && rings
  }, { seconds }).catch((error: Error) => {
    throw new Error(`${error.message}; they say ${last}`, { cause: error })
  })
}

/** Waits until a request for a model is refused for that reason. */
export async function refused (at: TestNode, model: string, reason: string): Promise<Answer> {
  return await until(`${reason} for ${model}`, async () => {
    const answer = await askWithin(at, '/v1/audio/speech', { body: { model, input: 'x',
      instructions: JSON.stringify({ do: 'count', chunks: 1 }) } })
    return refusal(answer)?.reason === reason && answer
  })
}

/** Durable events of a kind from all these members, oldest first. */
export async function eventsOf (on: readonly Member[], kind: string): Promise<Record<string, unknown>[]> {
  const all = await Promise.all(on.map(async ({ node }) => {
    const { events } = (await askWithin(node, `/events?limit=1000&kinds=${kind}`)).json as {
      events: { event: Record<string, Record<string, unknown>> }[] }
    return events.flatMap(({ event }) => event[kind] === undefined ? [] : [event[kind]])
  }))
  return all.flat()
}
