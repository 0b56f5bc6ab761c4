/** One model over the programs of several complete nodes: a stand-in whose tokens pass all ranks. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { startCluster } from './cluster-kit.js'
import { ask } from './http.js'
import { folder, secondsSince, svc, until } from './kit.js'
import { alive, descendants } from './proc.js'

const SCRIPT = fileURLToPath(new URL('../../plugins/openai-programs/test/fixtures/stand-in.mjs',
  import.meta.url))
const model = {
  architectures: ['LlamaForCausalLM'], model_type: 'llama', num_hidden_layers: 1, hidden_size: 8,
  num_attention_heads: 2, max_position_embeddings: 2048, torch_dtype: 'bfloat16'
}

t.test('a gang', { timeout: 300_000 }, async (t) => {
  const at = folder(t)
  const journal = join(at, 'journal')
  writeFileSync(journal, '')
  const files = { 'config.json': model, 'tokenizer.json': {},
    'tokenizer_config.json': { chat_template: 'x' } }
  mkdirSync(join(at, 'model'))
  writeFileSync(join(at, 'model/model.safetensors'), 'x')
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(at, 'model', name), JSON.stringify(content))
  }
  const environment = (version: string): string => {
    const path = join(at, `v${version}`)
    mkdirSync(join(path, 'lib/python3.11/site-packages', `ring-${version}.dist-info`), { recursive: true })
    return path
  }
  const configOf = (number: number) => {
    const ring = {
      command: process.execPath, environment_path: environment(number === 1 ? '2.0' : '1.0'),
      packages: ['ring'], gang: { linked: true, models: ['llama'], seconds: 6 },
      args: [SCRIPT, '--port', '{port}', '--journal', journal, ['--rank', '{rank}', '--hosts', '{hosts}']]
    }
    // A copy, because svc.yaml must not have aliases.
    const open = structuredClone({
      ...ring, gang: { models: ['llama'], seconds: 6 }, environment: { STAND_IN: '{own} {interface}' },
      args: [...ring.args.slice(0, -1),
        ['--rank', '{rank}', '--ranks', '{ranks}', '--head', '{head}:{head_port}']]
    })
    const other = { command: process.execPath, args: [SCRIPT] }
    const collectives = number === 1 ? {} : { collectives: { interface: 'lo' } }
    return {
      model_store: { hub: { enabled: false } },
      plugins: {
        'placement': { autoplace: [] }, 'runners': { confine: false, rpc_for_every_user: true },
        'openai-programs': { ...collectives, engine_order: ['ring'], engines: { ring, open, other } }
      }
    }
  }
  const env = { HF_TOKEN: 'hunter2', OPENAI_API_KEY: 'hunter2', AWS_SECRET_ACCESS_KEY: 'hunter2' }
  const cluster = await startCluster(t, { nodes: 3, configOf, config: {}, env })
  const [one, two, three] = cluster.members
  const run = async (...args: string[]) => await svc(args, { env: { SVC_HOME: one!.home } })
  const place = async (...more: string[]) => await run('place', 'test/ring', ...more)
  interface Start { start: number, child: number, rank?: string, environment?: string, secret?: boolean }
  const starts = (): Start[] => readFileSync(journal, 'utf8').split('\n')
    .filter((line) => line.startsWith('{"start"')).map((line) => JSON.parse(line) as Start)
  const live = () => starts().filter(({ start }) => alive(start))
  const rank = (number: number): number | undefined =>
    live().find((entry) => entry.rank === String(number))?.start
  let at3 = false
  const chat = async (content: string) => await ask((at3 ? three : one)!.node, '/v1/chat/completions',
    { body: { model: 'test/ring', messages: [{ role: 'user', content }] } })
  const serves = async (count: number): Promise<boolean> =>
    (await chat('go')).status === 200 && live().length === count
  t.match(await run('pull', join(at, 'model'), '--as', 'test/ring'), { status: 0 })

  const refusals: [string[], RegExp][] = [
    [['--min-nodes', '3'], /which 3 nodes do not allow|it has ring 2.0, others have 1.0/],
    [['--min-nodes', '2', '--exclude', 'n2'], /it has ring [12].0, others have [12].0/],
    [['--min-nodes', '3', '--engine', 'open'], /on n1, open: its traffic between nodes is not encrypted/],
    [['--min-nodes', '2', '--engine', 'other'], /other: cannot share|other cannot share a model/],
    [['--min-nodes', '2', '--engine', 'none'], /"none" cannot be used on any node/]
  ]
  for (const [args, why] of refusals) {
    const { status, stderr } = await place(...args)
    t.not(status, 0)
    t.match(stderr, why)
  }
  t.match(await place('--min-nodes', '2', '--wait=60'), { status: 0 })
  t.equal(live().length, 2)
  t.match(await chat('go'), { status: 200, text: /Mercury, Venus, Earth\./ })

  await t.test('kill -9 of a rank ends all, and all start again', async (t) => {
    const old = live().map(({ start }) => start)
    const open = chat('slow')
    await new Promise((resolve) => { setTimeout(resolve, 500) })
    const startMs = performance.now()
    process.kill(rank(1)!, 'SIGKILL')
    t.match((await open).text, /instance_lost/)
    t.ok(secondsSince(startMs) < 10)
    await until('the old ones are gone', () => !old.some(alive))
    await until('a new gang serves', async () => await serves(2))
    t.notOk(live().some(({ start }) => old.includes(start)))
  })

  const away = `${journal}.away`
  const startsWithout = async () => {
    writeFileSync(away, '')
    t.match(await place('--min-nodes', '2', '--no-wait'), { status: 0 })
    await until('both programs run', () => live().length === 2)
    rmSync(away)
  }
  const stops = async (model = 'test/ring', left = 0) => {
    t.match(await run('stop', model), { status: 0 })
    await until('its programs and their children are gone',
      () => live().length === left && starts().filter(({ child }) => alive(child)).length === left)
  }

  await t.test('ends while it starts', async () => {
    await stops()
    await startsWithout()
    await stops()
    await startsWithout()
    process.kill(rank(1)!, 'SIGKILL')
    await until('a new gang serves', async () => await serves(2))
  })

  await t.test('two at once, and a drained first rank', async (t) => {
    t.match(await run('pull', join(at, 'model'), '--as', 'test/two'), { status: 0 })
    await stops()
    const both = await Promise.all(['test/ring', 'test/two'].map(async (model) =>
      await run('place', model, '--min-nodes', '2', '--wait=60')))
    t.match(both, [{ status: 0 }, { status: 0 }])
    await until('both serve', async () => await serves(4))
    await stops('test/two', 2)
    const first = cluster.members.find(({ node }) => descendants(node.pid).includes(rank(0)!))!
    t.match(await run('drain', first.name), { status: 0 })
    await until('it serves on another node', async () => await serves(1), { seconds: 60 })
    t.notOk(descendants(first.node.pid).includes(live()[0]!.start))
    t.match(await run('undrain', first.name), { status: 0 })
    await stops()
  })

  await t.test('traffic that is not encrypted', async (t) => {
    t.match(await place('--min-nodes', '2', '--engine', 'open', '--wait=60'), { status: 0 })
    t.match(live(), [{ environment: '127.0.0.1 lo' }, { environment: '127.0.0.1 lo' }])
    t.match(await chat('go'), { status: 200, text: /Mercury, Venus, Earth\./ })
    const { stdout } = await run('doctor')
    t.match(stdout, /collectives of n2 .*unencrypted traffic with other nodes by lo/)
    t.notMatch(stdout, /collectives of n1/)
    t.match((await run('audit', '--who', 'svc.yaml')).stdout, /openai-programs/)
    process.kill(rank(1)!, 'SIGKILL')
    await until('a new gang serves', async () => await serves(2))
    await stops()
    t.match(await place('--min-nodes', '2', '--wait=60'), { status: 0 })
    t.notOk(starts().some(({ secret }) => secret))
  })

  await t.test('a first rank that always crashes', async (t) => {
    await stops()
    writeFileSync(`${journal}.crash`, '')
    t.match(await place('--min-nodes', '2', '--no-wait'), { status: 0 })
    const startMs = performance.now()
    await until('it serves on one node', async () => await serves(1), { seconds: 120 })
    t.comment(`after ${secondsSince(startMs)} s`)
    rmSync(`${journal}.crash`)
    await stops()
    t.match(await place('--min-nodes', '2', '--wait=60'), { status: 0 })
  })

  await t.test('a rank that never arrives', async (t) => {
    writeFileSync(away, '')
    process.kill(rank(1)!, 'SIGKILL')
    await until('it serves on one node', async () => await serves(1), { seconds: 90 })
    rmSync(away)
    t.match(await run('stop', 'test/ring'), { status: 0 })
    t.match(await place('--min-nodes', '2', '--wait=60'), { status: 0 })
  })

  await t.test('another master, and the loss of a node', async (t) => {
    const old = live().map(({ start }) => start)
    await one!.kill()
    await cluster.agreed({ live: 2 })
    at3 = true
    t.match(await chat('go'), { status: 200 })
    t.strictSame(live().map(({ start }) => start), old, 'the gang goes on')
    await two!.kill()
    await until('it serves without that node', async () => await serves(1), { seconds: 90 })
  })
})
