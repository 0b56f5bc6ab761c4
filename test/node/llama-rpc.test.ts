/** One model over several complete nodes, whose llama.cpp stand-ins communicate through the nodes. */
import t from 'tap'
import { fileURLToPath } from 'node:url'
import { donorIn, entries, folder, lives, standIn } from '../../plugins/llama-cpp/test/llama-kit.js'
import { startCluster, type Cluster, type Member } from './cluster-kit.js'
import { ask } from './http.js'
import { fixture, until } from './kit.js'

const MODEL = 'test/gguf'
const config = { plugins: {
  gguf: { module: fixture('gguf.mjs') }, placement: { autoplace: [] },
  // Confined runners could not write the stand-ins' journals, which are outside the runners' folders.
  runners: { confine: false, rpc_for_every_user: true }
} }

interface Star {
  LlamaRpcInstance: {
    instanceId: string, driverNode: string, donorEndpoints: Record<string, { ip: string, port: number }[]>
    shardAssignments: { nodeToRunner: Record<string, string> }
  }
}

/** The sharded instances of the model. */
async function stars (at: Member): Promise<Star['LlamaRpcInstance'][]> {
  const all = Object.values((await at.state())?.instances ?? {}) as Partial<Star>[]
  return all.flatMap(({ LlamaRpcInstance: star }) => star ?? [])
}

const place = async (at: Member, more: object = {}) => await ask(at.node, '/place_instance', { body: {
  model_id: MODEL, instance_meta: 'LlamaRpc', min_nodes: 2, wait: true, timeout_seconds: 60, ...more
} })

/** The model's answer; the last word of the prompt controls the stand-in. Undefined if the request fails. */
async function says (at: Member, word: string): Promise<string | undefined> {
  const answer = await at.ask('/v1/chat/completions', { ms: 10_000, body: {
    model: MODEL, messages: [{ role: 'user', content: `please ${word}` }]
  } })
  if (answer?.status !== 200) return undefined
  return (answer.json as { choices: { message: { content: string } }[] }).choices[0]!.message.content
}

/** Whether /readyz reports that the model is serving requests. */
const ready = async (at: Member): Promise<boolean> => (await at.ask(`/readyz?model=${MODEL}`))?.status === 200

const memberOf = ({ members }: Cluster, nodeId: string): Member =>
  members.find(({ node }) => node.nodeId === nodeId)!

t.test('a model over a driver and a donor', { timeout: 180_000 }, async (t) => {
  const directory = folder(t)
  const { binary, journal } = standIn(directory, { outlives: true })
  const donors = donorIn(directory)
  const env = { SVC_LLAMA_SERVER_BIN: binary, SVC_LLAMA_RPC_SERVER_BIN: donors.binary }
  const cluster = await startCluster(t, { nodes: 3, config, env })
  const { master } = await cluster.agreed()
  const donorPids = (): number[] =>
    entries(donors.journal).flatMap((entry) => 'donor' in entry ? Number(entry['pid']) : [])

  const driverPids = (): number[] =>
    entries(journal).flatMap((entry) => 'start' in entry ? Number(entry['pid']) : [])

  const placed = await place(master)
  t.equal(placed.status, 200, placed.text)
  const [star] = await stars(master)
  const [donorId] = Object.keys(star!.donorEndpoints)
  t.match(star!.donorEndpoints, { [donorId!]: [{ ip: '127.0.0.1', port: Number }] })
  t.not(donorId, star!.driverNode)
  t.equal(donorPids().length, 1)

  await t.test('it answers at every node, through its donor', async (t) => {
    for (const member of cluster.up()) {
      t.match(await says(member, 'lend'), `${donorPids()[0]} true `, member.name)
    }
    const driver = entries(journal).find((entry) => 'start' in entry)
    t.match((driver?.['start'] as string[]).join(' '),
      /--rpc 127.0.0.1:\d+ --split-mode layer --tensor-split \d+ --n-gpu-layers \d+/)
  })

  await t.test('a donor that dies comes back, and so does the model', async (t) => {
    const [first] = donorPids()
    const [driver] = driverPids()
    process.kill(first!, 'SIGKILL')
    await until('another donor', () => donorPids().length === 2)
    await until('another driver without a request', () => driverPids().length === 2, { seconds: 60 })
    t.notOk(lives(driver!))
    await until('it is ready', async () => await ready(master), { seconds: 60 })
    t.equal(await says(master, 'lend'), `${donorPids()[1]} true a b c`, 'the first request is answered')
    t.strictSame((await stars(master)).map(({ instanceId }) => instanceId), [star!.instanceId])
  })

  await t.test('the loss of the donor\'s node places it again', async (t) => {
    const driver = memberOf(cluster, star!.driverNode)
    const [gone] = donorPids().slice(-1)
    await memberOf(cluster, donorId!).kill()
    await until('the donor is gone', () => !lives(gone!))
    await until('another instance', async () => (await stars(driver)).some((one) =>
      one.instanceId !== star!.instanceId && one.shardAssignments.nodeToRunner[donorId!] === undefined),
    { seconds: 60 })
    await until('it answers again', async () => await says(driver, 'lend') ===
      `${donorPids().at(-1)} true a b c`, { seconds: 60 })
  })

  await t.test('removing it ends its processes', async (t) => {
    const [at] = cluster.up()
    const [one] = await stars(at!)
    const pids = [...donorPids(), ...driverPids()]
    const removed = await ask(at!.node, `/instance/${one!.instanceId}`, { method: 'DELETE' })
    t.equal(removed.status, 200, removed.text)
    await until('all are gone', () => pids.every((pid) => !lives(pid)))
    t.strictSame(await stars(at!), [])
  })
})

t.test('confined, driver and donor compute together as well', { timeout: 120_000 }, async (t) => {
  const directory = folder(t)
  const env = { SVC_LLAMA_SERVER_BIN: standIn(directory).binary,
    SVC_LLAMA_RPC_SERVER_BIN: donorIn(directory).binary }
  const scripts = fileURLToPath(
    new URL('../../plugins/llama-cpp/test/fixtures/llama-server.mjs', import.meta.url))
  const confined = { plugins: { ...config.plugins,
    runners: { rpc_for_every_user: true, engine_options: { 'llama-server': { scripts } } } } }
  const cluster = await startCluster(t, { nodes: 2, config: confined, env })
  const { master } = await cluster.agreed()
  const placed = await place(master)
  t.equal(placed.status, 200, placed.text)
  t.match(await says(master, 'lend'), /^\d+ true a b c$/)
  const { supervisorRunners } = (await ask(master.node, '/v1/diagnostics/node')).json as
    { supervisorRunners: { hold: string }[] }
  t.ok(supervisorRunners.length > 0 && supervisorRunners.every(({ hold }) => hold !== 'none'))
})

t.test('an unusable override is not replaced', { timeout: 120_000 }, async (t) => {
  const directory = folder(t)
  const { binary } = standIn(directory)
  donorIn(directory)
  const env = { SVC_LLAMA_SERVER_BIN: binary, SVC_LLAMA_RPC_SERVER_BIN: `${directory}/none` }
  const cluster = await startCluster(t, { nodes: 2, config, env })
  const { master } = await cluster.agreed()
  const failed = await place(master)
  t.not(failed.status, 200)
  t.match(failed.text, 'SVC_LLAMA_RPC_SERVER_BIN')
  const { nodeHealth } = (await master.state())!
  t.match(JSON.stringify(nodeHealth), 'invalid_engine_binary')
})
