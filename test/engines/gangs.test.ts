/** SmolLM2 on a ring of three real MLX programs on three nodes: `npm run test:engines`. */
import { join } from 'node:path'
import t from 'tap'
import { startCluster, type Member } from '../node/cluster-kit.js'
import { ask } from '../node/http.js'
import { secondsSince, svc, until } from '../node/kit.js'
import { cmdline, descendants } from '../node/proc.js'
import { mlx, PLANETS, weights, without } from './kit.js'

const skip = without()

t.test('a ring of MLX serves SmolLM2', { skip, timeout: 900_000 }, async (t) => {
  const python = join(mlx(), 'bin')
  const config = { model_store: { hub: { enabled: false } }, plugins: {
    'placement': { autoplace: [] }, 'runners': { rpc_for_every_user: true },
    'openai-programs': { engines: { mlx: { environment_path: mlx() } } }
  } }
  const cluster = await startCluster(t, { nodes: 3, config, heartbeatMs: 2000, electionMs: 3000 })
  const { master } = await cluster.agreed()
  const run = async (...args: string[]) => await svc(args, { env: { SVC_HOME: master.home } })
  const chat = async (more: object = {}) => await ask(master.node, '/v1/chat/completions', { body: {
    model: 'test/smol', messages: [{ role: 'user', content: PLANETS }], temperature: 0, max_tokens: 24,
    ...more
  } })
  const program = ({ node }: Member): number | undefined =>
    descendants(node.pid).find((pid) => /mlx_lm.server/.test(cmdline(pid)))
  const all = (): number[] => cluster.up().flatMap((one) => program(one) ?? [])
  const serves = async (): Promise<boolean> => (await chat({ max_tokens: 1 })).status === 200
  t.match(await run('pull', weights(python), '--as', 'test/smol'), { status: 0 })
  t.match(await run('place', 'test/smol', '--ctx', '2048', '--wait=300'), { status: 0 })
  const textOf = ({ text }: { text: string }) =>
    (JSON.parse(text) as { choices: [{ message: { content: string } }] }).choices[0].message.content
  const alone = textOf(await chat())
  t.match(alone, /Mercury, Venus/)
  t.match(await run('stop', 'test/smol'), { status: 0 })
  t.match(await run('place', 'test/smol', '--min-nodes', '2', '--exclude', 'n3'),
    { status: 1, stderr: /splits 9 heads, 3 key-value heads .* 2 nodes do not allow/ })
  const placed = await run('place', 'test/smol', '--ctx', '2048', '--min-nodes', '3', '--engine', 'mlx',
    '--wait=300')
  t.match(placed, { status: 0 }, placed.stderr)
  t.equal(all().length, 3)
  const startMs = performance.now()
  t.equal(textOf(await chat()), alone, 'the same text')
  t.comment(`24 tokens in ${secondsSince(startMs)} s`)

  for (const [signal, limit] of [['SIGKILL', 3], ['SIGSTOP', 15]] as const) {
    await t.test(`${signal} of a rank`, async (t) => {
      const old = all()
      const open = chat({ max_tokens: 400 })
      await new Promise((resolve) => { setTimeout(resolve, 1_000) })
      const startMs = performance.now()
      process.kill(program(cluster.members[1]!)!, signal)
      const { status, text } = await open
      t.comment(`${signal}: the open answer ended after ${secondsSince(startMs)} s: ${status}`)
      t.ok(secondsSince(startMs) <= limit)
      t.match(text, /instance_lost/)
      await until('the old programs are gone', () => !all().some((pid) => old.includes(pid)), { seconds: 30 })
      await until('a new ring serves', serves, { seconds: 120 })
      t.comment(`it serves again after ${secondsSince(startMs)} s`)
      t.equal(textOf(await chat()), alone)
    })
  }
  await t.test('the loss of a node', async (t) => {
    const startMs = performance.now()
    await cluster.up().find((one) => one !== master)!.kill()
    await until('it serves, on one node', async () => await serves() && all().length === 1, { seconds: 120 })
    t.comment(`it serves on one node after ${secondsSince(startMs)} s`)
    t.equal(textOf(await chat()), alone)
  })
})
