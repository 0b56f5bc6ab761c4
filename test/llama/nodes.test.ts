/** A real llama.cpp in whole nodes, on one and over several: the same text, also after kill -9 of parts. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import { stringify } from 'yaml'
import { startCluster, type Cluster, type Member } from '../node/cluster-kit.js'
import { ask, open, whole } from '../node/http.js'
import { folder, until } from '../node/kit.js'
import { alive, cmdline, descendants, hardKill } from '../node/proc.js'
import { madeModel, programs, skipMade, skipStories, storyteller, type Model } from './kit.js'

const skip = skipMade || skipStories
const STORIES = 'test/stories'
const ENDLESS = 'test/endless'

type Test = Parameters<typeof startCluster>[0]

/** A folder with a model and its card. */
function putModel (models: string, name: string, { directory, card }: Model): void {
  const path = join(models, name)
  mkdirSync(path)
  copyFileSync(join(directory, card.files[0]!.path), join(path, card.files[0]!.path))
  const own = { ...card, modelId: `test/${name}`, title: name, description: name, licence: 'MIT' }
  writeFileSync(join(path, 'card.yaml'), stringify(own))
}

async function started (t: Test, nodes: number): Promise<Cluster> {
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
  return await startCluster(t, { nodes, config, env, heartbeatMs: 2000 })
}

const bodyOf = (model: string, more: object = {}): object =>
  ({ model, prompt: 'Once upon a time', max_tokens: 60, temperature: 0, ...more })

/** What a model says at a member; undefined when it does not answer. */
async function says (at: Member, model: string, more: object = {}): Promise<string | undefined> {
  const answer = await at.ask('/v1/completions', { ms: 10_000, body: bodyOf(model, more) })
  if (answer?.status !== 200) return undefined
  return (answer.json as { choices: { text: string }[] }).choices[0]!.text
}

interface Event { choices?: { text: string, finish_reason: string | null }[], error?: { reason: string } }

const eventsOf = (text: string): Event[] => text.split('\n')
  .filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)) as Event)

/** A stream that has begun: what came until its end. */
async function begun (
  at: Member, model: string, more: object = {}
): Promise<{ end: Promise<Event[]> }> {
  const body = bodyOf(model, { stream: true, ...more })
  const response = await open(at.node, '/v1/completions', { body })
  await new Promise<void>((resolve) => { response.once('readable', resolve) })
  return { end: whole(response).then((bytes) => eventsOf(bytes.toString())) }
}

const ready = async (at: Member, model: string): Promise<boolean> =>
  (await at.ask(`/readyz?model=${model}`))?.status === 200

/** Processes of a program of llama.cpp below the nodes. */
const processes = (cluster: Cluster, program: string): number[] =>
  cluster.up().flatMap((member) => descendants(member.pid()))
    .filter((pid) => cmdline(pid).split(' ')[0]!.endsWith(`/${program}`))

const DRIVER = 'llama-server'
const DONOR = 'ggml-rpc-server'

/** Places a model on so many nodes; gives the id of the instance. */
async function place (t: Test, at: Member, model: string, nodes: number): Promise<string> {
  const placed = await ask(at.node, '/place_instance', { body: {
    model_id: model, wait: true, timeout_seconds: 60, ...nodes > 1 ? { instance_meta: 'LlamaRpc' } : {},
    min_nodes: nodes
  } })
  t.equal(placed.status, 200, placed.text)
  const { instances } = (await at.state())!
  const [instance] = Object.values(instances) as Record<string, { instanceId: string }>[]
  return Object.values(instance!)[0]!.instanceId
}

async function remove (t: Test, cluster: Cluster, at: Member, instanceId: string): Promise<void> {
  const removed = await ask(at.node, `/instance/${instanceId}`, { method: 'DELETE' })
  t.equal(removed.status, 200, removed.text)
  await until('no process is left', () =>
    [DRIVER, DONOR].every((name) => processes(cluster, name).length === 0))
}

t.test('on one, two and three nodes', { skip, timeout: 200_000 }, async (t) => {
  const cluster = await started(t, 3)
  const { master } = await cluster.agreed()
  const texts: (string | undefined)[] = []

  for (const nodes of [1, 2, 3]) {
    await t.test(`greedy text on ${nodes}`, async (t) => {
      const id = await place(t, master, STORIES, nodes)
      t.equal(processes(cluster, DRIVER).length, 1)
      t.equal(processes(cluster, DONOR).length, nodes - 1)
      for (const member of cluster.up()) texts.push(await says(member, STORIES))
      t.match(texts.at(-1), /^, there was a /)
      const streamed = await (await begun(master, STORIES)).end
      t.equal(streamed.map(({ choices }) => choices?.[0]?.text ?? '').join(''), texts[0], 'as a stream')
      await remove(t, cluster, master, id)
    })
  }
  t.equal(new Set(texts).size, 1, 'the same everywhere')

  for (const nodes of [1, 2, 3]) {
    const programs = nodes === 1 ? [DRIVER] : [DONOR, DRIVER]
    await t.test(`kill -9 on ${nodes}`, async (t) => {
      const id = await place(t, master, ENDLESS, nodes)
      const text = await says(master, ENDLESS)
      for (const program of programs) {
        const stream = await begun(master, ENDLESS, { max_tokens: 8000 })
        const pids = [DRIVER, DONOR].flatMap((name) => processes(cluster, name))
        const [victim] = processes(cluster, program)
        hardKill(victim!)
        const events = await stream.end
        t.same(events.flatMap(({ error }) => error?.reason ?? []), ['instance_lost'], `${program}: once`)
        await until('another driver', () => processes(cluster, DRIVER).some((pid) => !pids.includes(pid)))
        await until('it is ready again', async () => await ready(master, ENDLESS))
        t.equal(await says(master, ENDLESS), text, 'the first request is answered')
        t.notOk(alive(victim!))
        t.equal(processes(cluster, DRIVER).length, 1)
        t.equal(processes(cluster, DONOR).length, nodes - 1)
      }
      await remove(t, cluster, master, id)
    })
  }
})
