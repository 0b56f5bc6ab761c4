/** A real llama.cpp in whole nodes: models on one or several of them, and the programs that run them. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { startCluster, type Cluster, type ClusterOptions, type Member } from '../node/cluster-kit.js'
import { ask, open, whole } from '../node/http.js'
import { folder, until } from '../node/kit.js'
import { cmdline, descendants } from '../node/proc.js'
import { madeModel, programs, skipMade, skipStories, storyteller, type Model } from './kit.js'

export const skip = skipMade || skipStories
export const STORIES = 'test/stories'
export const ENDLESS = 'test/endless'

export type Test = Parameters<typeof startCluster>[0]

/** A folder with a model and its card. */
function putModel (models: string, name: string, { directory, card }: Model): void {
  const path = join(models, name)
  mkdirSync(path)
  copyFileSync(join(directory, card.files[0]!.path), join(path, card.files[0]!.path))
  const words = { modelId: `test/${name}`, title: name, description: name, licence: 'MIT' }
  const own = { ...card, ...words, supportsTensor: true }
  writeFileSync(join(path, 'card.yaml'), stringify(own))
}

/** Starts nodes with two models, a small real one and one that goes on for long. */
export async function started (t: Test, nodes: number, more: ClusterOptions = {}): Promise<Cluster> {
  const plugin = fileURLToPath(new URL('fixtures/stories.mjs', import.meta.url))
  const models = folder(t)
  putModel(models, 'stories', storyteller())
  const shape = { layers: 6 }
  putModel(models, 'endless', madeModel(t, { vocabulary: 'llama-spm', shape }, { nLayers: 6 }))
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

/** What a model says at a member; undefined when it does not answer. */
export async function says (at: Member, model: string, more: object = {}): Promise<string | undefined> {
  const answer = await at.ask('/v1/completions', { ms: 60_000, body: bodyOf(model, more) })
  if (answer?.status !== 200) return undefined
  return (answer.json as { choices: { text: string }[] }).choices[0]!.text
}

/** An event of a streamed answer. */
export interface Event {
  choices?: { text: string, finish_reason: string | null }[]
  error?: { reason: string }
}

const eventsOf = (text: string): Event[] => text.split('\n')
  .filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)) as Event)

/** A stream that has begun: what came until its end. */
export async function begun (
  at: Member, model: string, more: object = {}
): Promise<{ end: Promise<Event[]> }> {
  const body = bodyOf(model, { stream: true, ...more })
  const response = await open(at.node, '/v1/completions', { body })
  await new Promise<void>((resolve) => { response.once('readable', resolve) })
  return { end: whole(response).then((bytes) => eventsOf(bytes.toString())) }
}

/** Whether a model answers. */
export const ready = async (at: Member, model: string): Promise<boolean> =>
  (await at.ask(`/readyz?model=${model}`))?.status === 200

/** Processes of a program of llama.cpp below the nodes. */
export const processes = (cluster: Cluster, program: string): number[] =>
  cluster.up().flatMap((member) => descendants(member.pid()))
    .filter((pid) => cmdline(pid).split(' ')[0]!.endsWith(`/${program}`))

/** The programs of a driver and of a donor. */
export const DRIVER = 'llama-server'
export const DONOR = 'ggml-rpc-server'

export type Sharding = 'Pipeline' | 'Tensor'

/** An instance as /state shows it. */
export interface Placed {
  instanceId: string
  driverNode?: string
  shardAssignments: { nodeToRunner: Record<string, string> }
}

/** The instances that a node knows of. */
export async function instancesAt (at: Member): Promise<Placed[]> {
  const { instances } = await at.state() ?? { instances: {} }
  return Object.values(instances).flatMap((one) => Object.values(one as Record<string, Placed>))
}

/** Places a model on so many nodes, or more; gives the instance. */
export async function place (
  t: Test, at: Member, model: string, nodes: number, sharding: Sharding = 'Pipeline',
  excluded: readonly string[] = []
): Promise<Placed> {
  const body = {
    model_id: model, sharding, min_nodes: nodes, excluded_nodes: excluded, wait: true, timeout_seconds: 120
  }
  // Just after a start not every node has told of its links.
  const placed = await until(`${model} is placed`, async () => {
    const answer = await ask(at.node, '/place_instance', { body })
    return answer.text.includes('no_connected_cycle') ? undefined : answer
  })
  t.equal(placed.status, 200, placed.text)
  const [instance] = await instancesAt(at)
  return instance!
}

/** Removes an instance; nothing of it is left. */
export async function remove (
  t: Test, cluster: Cluster, at: Member, { instanceId }: Pick<Placed, 'instanceId'>
): Promise<void> {
  const removed = await ask(at.node, `/instance/${instanceId}`, { method: 'DELETE' })
  t.equal(removed.status, 200, removed.text)
  await until('no process is left', () =>
    [DRIVER, DONOR].every((name) => processes(cluster, name).length === 0))
}
