/** A real llama.cpp in complete nodes: models on one or several nodes, and the llama.cpp processes. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { startCluster, type Cluster, type ClusterOptions, type Member } from '../node/cluster-kit.js'
import { ask, open, readBody } from '../node/http.js'
import { folder, until } from '../node/kit.js'
import { cmdline, descendants } from '../node/proc.js'
import { generatedModel, programs, skipGenerated, skipStories, storyteller, type Model } from './kit.js'

export const skip = skipGenerated || skipStories
export const STORIES = 'test/stories'
export const ENDLESS = 'test/endless'

export type Test = Parameters<typeof startCluster>[0]

/** Writes a model and its card into a folder. */
function putModel (models: string, name: string, { directory, card }: Model): void {
  const path = join(models, name)
  mkdirSync(path)
  copyFileSync(join(directory, card.files[0]!.path), join(path, card.files[0]!.path))
  const words = { modelId: `test/${name}`, title: name, description: name, licence: 'MIT' }
  const own = { ...card, ...words, supportsTensor: true }
  writeFileSync(join(path, 'card.yaml'), stringify(own))
}

/** Starts nodes with two models: a small real one, and a generated one whose answers are very long. */
export async function started (t: Test, nodes: number, more: ClusterOptions = {}): Promise<Cluster> {
  const plugin = fileURLToPath(new URL('fixtures/stories.mjs', import.meta.url))
  const models = folder(t)
  putModel(models, 'stories', storyteller())
  const shape = { layers: 6 }
  putModel(models, 'endless', generatedModel(t, { vocabulary: 'llama-spm', shape }, { nLayers: 6 }))
  const config = { plugins: {
    stories: { module: plugin }, placement: { autoplace: [] }, runners: { rpc_for_every_user: true }
  } }
  const env = {
    SVC_LLAMA_SERVER_BIN: join(programs, 'llama-server'),
    LLAMA_TEST_MODELS: pathToFileURL(`${models}/`).href
  }
  return await startCluster(t, { nodes, config, env, heartbeatMs: 2000, ...more })
}

const bodyOf = (model: string, more: object = {}): object =>
  ({ model, prompt: 'Once upon a time', max_tokens: 60, temperature: 0, ...more })

/** Requests an answer from a model at this member; undefined if the request fails. */
export async function answerOf (at: Member, model: string, more: object = {}): Promise<string | undefined> {
  const answer = await at.ask('/v1/completions', { ms: 60_000, body: bodyOf(model, more) })
  if (answer?.status !== 200) return undefined
  return (answer.json as { choices: { text: string }[] }).choices[0]!.text
}

export interface Event {
  choices?: { text: string, finish_reason: string | null }[]
  error?: { reason: string }
}

const eventsOf = (text: string): Event[] => text.split('\n')
  .filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)) as Event)

/** Opens a stream; resolves when the first event arrives. Collects the events until the end. */
export async function openStream (
  at: Member, model: string, more: object = {}
): Promise<{ end: Promise<Event[]> }> {
  const body = bodyOf(model, { stream: true, ...more })
  const response = await open(at.node, '/v1/completions', { body })
  await new Promise<void>((resolve) => { response.once('readable', resolve) })
  return { end: readBody(response).then((bytes) => eventsOf(bytes.toString())) }
}

/** Whether a model answers. */
export const ready = async (at: Member, model: string): Promise<boolean> =>
  (await at.ask(`/readyz?model=${model}`))?.status === 200

/** Pids of all processes of this llama.cpp program that the cluster's nodes started. */
export const processes = (cluster: Cluster, program: string): number[] =>
  cluster.up().flatMap((member) => descendants(member.pid()))
    .filter((pid) => cmdline(pid).split(' ')[0]!.endsWith(`/${program}`))

/** A model's driver runs llama-server, and each donor runs ggml-rpc-server. */
export const DRIVER = 'llama-server'
export const DONOR = 'ggml-rpc-server'

export type Sharding = 'Pipeline' | 'Tensor'

/** An instance as GET /state shows it. */
export interface Placed {
  instanceId: string
  driverNode?: string
  shardAssignments: { nodeToRunner: Record<string, string> }
}

/** The instances that a node lists. */
export async function instancesAt (at: Member): Promise<Placed[]> {
  const { instances } = await at.state() ?? { instances: {} }
  return Object.values(instances).flatMap((one) => Object.values(one as Record<string, Placed>))
}

/** Places a model on at least `nodes` nodes; returns the instance. */
export async function place (
  t: Test, at: Member, model: string, nodes: number, sharding: Sharding = 'Pipeline',
  excluded: readonly string[] = []
): Promise<Placed> {
  const body = {
    model_id: model, sharding, min_nodes: nodes, excluded_nodes: excluded, wait: true, timeout_seconds: 120
  }
  // Retries, because right after startup some nodes have not reported their links yet.
  const placed = await until(`${model} is placed`, async () => {
    const answer = await ask(at.node, '/place_instance', { body })
    return answer.text.includes('no_connected_cycle') ? undefined : answer
  })
  t.equal(placed.status, 200, placed.text)
  const [instance] = await instancesAt(at)
  return instance!
}

/** Removes an instance and waits until all its processes are gone. */
export async function remove (
  t: Test, cluster: Cluster, at: Member, { instanceId }: Pick<Placed, 'instanceId'>
): Promise<void> {
  const removed = await ask(at.node, `/instance/${instanceId}`, { method: 'DELETE' })
  t.equal(removed.status, 200, removed.text)
  await until('no process is left', () =>
    [DRIVER, DONOR].every((name) => processes(cluster, name).length === 0))
}
