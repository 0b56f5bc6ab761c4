/** The first model of a new cluster, on complete nodes without a store and with a stub hub. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { config as llamaConfig, decoder, gguf, llama, onnx } from '../../plugins/staging/test/cards-kit.js'
import { startHub, type FakeHub } from '../../plugins/staging/test/hub-kit.js'
import { tinyModel } from '../../plugins/llama-cpp/test/gguf-kit.js'
import { startCluster, type Member } from './cluster-kit.js'
import { ask } from './http.js'
import { sparing, startNode, svc, until } from './kit.js'

const MODEL = 'acme/tiny'
const env = sparing(0)

/** A language model in ONNX. */
const OTHER = {
  'config.json': JSON.stringify(llamaConfig), 'tokenizer.json': '{}', 'onnx/model.onnx': onnx(decoder)
}

async function newHub (t: Test): Promise<{ hub: FakeHub, config: Record<string, unknown> }> {
  const hub = await startHub({ models: {
    [MODEL]: { files: { 'tiny-F32.gguf': tinyModel() } },
    'acme/tiny-ONNX': { files: OTHER },
    'acme/gguf': { files: { 'm-Q4_K_M.gguf': gguf(llama), 'm-Q8_0.gguf': gguf(llama) } },
    'acme/torch': { files: { 'config.json': '{}', 'model.safetensors': 'x' } }
  } })
  t.teardown(async () => { await hub.close() })
  return { hub, config: {
    plugins: { placement: { autoplace: [] } },
    model_store: { hub: { url: hub.url, redirect_hosts: [hub.cdnHost] } }
  } }
}

const storeIn = (home: string): unknown =>
  (parse(readFileSync(join(home, 'svc.yaml'), 'utf8')) as { model_store?: { store_path?: string } })
    .model_store?.store_path

t.test('two pulls at two nodes at once make one store', { timeout: 120_000 }, async (t) => {
  const { config } = await newHub(t)
  const cluster = await startCluster(t, { nodes: 3, config, env })
  await cluster.agreed()
  const [one, two, other] = cluster.members as [Member, Member, Member]
  const pulls = await Promise.all([one, two].map(async ({ home, node }) =>
    await svc(['pull', MODEL, '--home', home, '--url', node.url])))
  for (const { status, stderr, stdout } of pulls) {
    t.equal(status, 0, stderr)
    t.match(stdout, /acme\/tiny is in the store/)
  }
  const said = pulls.filter(({ stderr }) => stderr.includes('this node is now the store host'))
  t.equal(said.length, 1, 'one says that it keeps it')
  const paths = cluster.members.map(({ home }) => storeIn(home)).filter((path) => path !== undefined)
  t.same(paths.length, 1, 'one has it in svc.yaml')
  await until('the third node to know of the model', async () =>
    (await other.ask(`/models/${MODEL}/card`))?.status === 200)
  const codes = (await Promise.all(cluster.members.map(async (member) => await member.state())))
    .flatMap((state) => Object.values(state!.nodeHealth).flatMap(({ reasons }) => reasons))
    .map(({ code }) => code)
  t.notMatch(codes.join(' '), /second_store|restart_needed/)
})

t.test('the store of a pull is still configured after a restart', { timeout: 60_000 }, async (t) => {
  const { config } = await newHub(t)
  const node = await startNode(t, { config, env })
  const at = (url: string): string[] => ['--home', node.home, '--url', url]
  t.match(await svc(['pull', MODEL, ...at(node.url)]), { status: 0 })
  await node.kill()
  const again = await startNode(t, { home: node.home, env })
  const listed = await svc(['ls', '--json', ...at(again.url)])
  t.match(JSON.parse(listed.stdout), { models: [{ modelId: MODEL }] })
})

t.test('svc run with a model of the hub, on an empty node', { timeout: 120_000 }, async (t) => {
  const { hub, config } = await newHub(t)
  const node = await startNode(t, { config, env })
  const run = async (word: string): ReturnType<typeof svc> =>
    await svc(['run', word, 'hello', '--max-tokens', '6', '--temperature', '0', '--home', node.home,
      '--url', node.url])

  const refused: [word: string, status: number, says: RegExp][] = [
    ['acme/none', 3, /404 hub_not_found/],
    ['acme/tiny-ONNX:q9', 3, /has no ONNX variant "q9"; it has fp32/],
    ['acme/gguf:Q5_0', 3, /has no GGUF variant "Q5_0"; it has m-Q4_K_M, m-Q8_0/],
    ['acme/torch', 1, /safetensors without a tokenizer beside them[^]*Find a GGUF conversion/]
  ]
  for (const [word, status, says] of refused) t.match(await run(word), { status, stderr: says }, word)
  hub.faults = { gated: true }
  t.match(await run(MODEL), { status: 5, stderr: /403 hub_gated\)\n {2}Accept the terms on the model's/ })
  hub.faults = { sizes: { 'tiny-F32.gguf': 2 ** 50 } }
  t.match(await run(MODEL), { status: 6, stderr: /does not fit on the disk of .*more do not fit/ })
  hub.faults = {}
  t.equal(hub.sent(), 0, 'not a byte of a file has moved')
  t.equal(storeIn(node.home), undefined, 'and there is no store yet')

  const first = await run(MODEL)
  t.equal(first.status, 0, first.stderr)
  t.match(first.stderr, new RegExp(
    `^acme/tiny is not in the cluster; from ${hub.url}: 1 file, .*\\(GGUF F32\\)\n` +
    'store disk on .*\nmemory: the model needs at least .*; fits on .*\n' +
    'the cluster had no store: this node is'))
  t.match(first.stderr, /acme\/tiny {2}100 %/)
  const again = await run(`hf.co/${MODEL}`)
  t.match(again, { status: 0, stdout: first.stdout })
  t.notMatch(again.stderr, /not in the cluster|100 %/, 'it is ready')
  t.match(await run(`${MODEL}:Q4_0`), { status: 1, stderr: /is here as fp32: run it without :Q4_0/ })

  const { instances } = (await ask(node, '/state')).json as { instances: Record<string, unknown> }
  const [id] = Object.keys(instances)
  t.equal((await ask(node, `/instance/${id}`, { method: 'DELETE' })).status, 200)
  t.match(await run(MODEL), { status: 0, stdout: first.stdout }, 'what is here and not placed is placed')

  t.match(await run('acme/tiny-ONNX'), {
    status: 1,
    stderr: /acme\/tiny-ONNX is a language model \(llama\) in ONNX[^]*`svc pull ORG\/tiny-GGUF` downloads it/
  })
})
