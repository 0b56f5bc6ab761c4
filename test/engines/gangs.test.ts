/**
 * Gangs of real programs: SmolLM2 on a ring of three of MLX, and with SVC_TEST_NIGHTLY=1 a random Llama on
 * two of vLLM, which take minutes to start: `npm run test:engines`.
 */
import { join } from 'node:path'
import t from 'tap'
import { startCluster, type Member } from '../node/cluster-kit.js'
import { ask } from '../node/http.js'
import { secondsSince, sleep, svc, until } from '../node/kit.js'
import { cmdline, descendants } from '../node/proc.js'
import { mlx, PLANETS, randomLlama, vllm, weights, without } from './kit.js'

const skip = without()
/** `program`: all processes of the programs; `rank`: the one of a rank that computes. */
const gangs = {
  mlx: { install: mlx, model: weights, nodes: 3, program: /mlx_lm.server/, rank: /mlx_lm.server/,
    settings: {}, says: /Mercury, Venus/, startSeconds: 300 },
  vllm: { install: vllm, model: randomLlama, nodes: 2, program: /vllm serve|VLLM::/, rank: /VLLM::Worker/,
    settings: { collectives: { interface: 'lo' } }, says: /^( [a-z]{4,}){24}$/, startSeconds: 1_200 }
}
const { SVC_TEST_NIGHTLY: nightly } = process.env

for (const [name, gang] of Object.entries(gangs).slice(0, nightly === undefined ? 1 : 2)) {
  t.test(`a gang of ${name}`, { skip, timeout: 2_400_000 }, async (t) => {
    const { nodes, startSeconds: seconds } = gang
    const config = { model_store: { hub: { enabled: false } }, plugins: {
      'placement': { autoplace: [] }, 'runners': { rpc_for_every_user: true },
      'openai-programs': { engines: { [name]: { environment_path: gang.install() } }, ...gang.settings }
    } }
    const cluster = await startCluster(t, { nodes, config, heartbeatMs: 2000, electionMs: 3000 })
    const { master } = await cluster.agreed()
    const run = async (...args: string[]) => await svc(args, { env: { SVC_HOME: master.home } })
    const chat = async (more: object = {}) => await ask(master.node, '/v1/chat/completions', { body: {
      model: 'test/small', messages: [{ role: 'user', content: PLANETS }], temperature: 0, max_tokens: 24,
      ...more
    } })
    const of = ({ node }: Member, what: RegExp): number[] =>
      descendants(node.pid).filter((pid) => what.test(cmdline(pid)))
    const all = (what: RegExp = gang.program): number[] => cluster.up().flatMap((one) => of(one, what))
    const serves = async (): Promise<boolean> => (await chat({ max_tokens: 1 })).status === 200
    const textOf = ({ text }: { text: string }) =>
      (JSON.parse(text) as { choices: [{ message: { content: string } }] }).choices[0].message.content
    const place = async (...more: string[]): Promise<void> => {
      const startMs = performance.now()
      const placed = await run('place', 'test/small', '--ctx', '2048', '--engine', name, `--wait=${seconds}`,
        ...more)
      t.match(placed, { status: 0 }, placed.stderr.slice(-300))
      t.comment(`place ${more.join(' ')}: ${secondsSince(startMs)} s`)
    }
    t.match(await run('pull', gang.model(join(mlx(), 'bin')), '--as', 'test/small'), { status: 0 })
    await place()
    const alone = textOf(await chat())
    t.match(alone, gang.says)
    t.match(await run('stop', 'test/small'), { status: 0 })
    if (name === 'mlx') t.match(await run('place', 'test/small', '--min-nodes', '2', '--exclude', 'n3'),
      { status: 1, stderr: /splits 9 heads, 3 key-value heads .* 2 nodes do not allow/ })
    await place('--min-nodes', String(nodes))
    t.equal(all(gang.rank).length, nodes)
    const startMs = performance.now()
    t.equal(textOf(await chat()), alone, 'the same text')
    t.comment(`24 tokens in ${secondsSince(startMs)} s`)

    /**
     * Ends a part of the gang during an answer, which must end within `limit` seconds with a typed error, and
     * calls `next` while it starts again.
     */
    const during = async (what: string, limit: number, end: () => unknown, next = (): unknown => null) => {
      const old = all()
      const open = chat({ max_tokens: 1_900 })
      await sleep(1_000)
      const startMs = performance.now()
      await end()
      const { status, text } = await open
      const noticed = secondsSince(startMs)
      t.ok(noticed <= limit, `${what}: the open answer ended after ${noticed} s: ${status}`)
      t.match(text, /instance_lost/)
      await until('the old programs are gone', () => !all().some((pid) => old.includes(pid)), { seconds: 30 })
      await next()
      await until('it serves again', serves, { seconds })
      t.comment(`${what}: noticed after ${noticed} s; it serves again after ${secondsSince(startMs)} s`)
      t.equal(textOf(await chat()), alone)
    }
    const second = cluster.members[1]!
    const send = (signal: string, what: RegExp): void => { process.kill(of(second, what)[0]!, signal) }
    await during('SIGKILL of a rank', 3, () => { send('SIGKILL', gang.rank) }, async () => {
      await until('its program starts', () => of(second, gang.program).length > 0)
      send('SIGKILL', gang.program)
    })
    await during('SIGSTOP of a rank', 15, () => { send('SIGSTOP', gang.rank) })
    await during('the loss of a node', 8,
      async () => { await cluster.up().find((one) => one !== master)!.kill() })
    t.equal(all(gang.rank).length, 1, 'it serves on one node')
  })
}
