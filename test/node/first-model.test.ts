/** The first model of a new cluster: whole nodes that have no store yet, and a hub. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { startHub } from '../../plugins/staging/test/hub-kit.js'
import { TEMPLATE, tinyTokenizer } from '../../plugins/chat/test/engine-kit.js'
import { makeDecoder } from '../../plugins/chat/test/engine-onnx.js'
import { startCluster } from './cluster-kit.js'
import { startNode, svc, until } from './kit.js'
import type { FakeHub } from '../../plugins/staging/test/hub-kit.js'
import type { Member } from './cluster-kit.js'
import type { Test } from 'tap'

const MODEL = 'acme/tiny'
const env = { SVC_TEST_HEADROOM_BYTES: '0' }

const FILES = {
  'config.json': JSON.stringify({ model_type: 'llama', eos_token_id: 1, max_position_embeddings: 128 }),
  'tokenizer.json': JSON.stringify(tinyTokenizer()),
  'tokenizer_config.json': JSON.stringify({ eos_token: '<end>', chat_template: TEMPLATE }),
  'onnx/model.onnx': makeDecoder()
}

async function newHub (t: Test): Promise<{ hub: FakeHub, config: Record<string, unknown> }> {
  const hub = await startHub({ models: { [MODEL]: { files: FILES } } })
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
  const said = pulls.filter(({ stderr }) => stderr.includes('there was no store: this node keeps it'))
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

t.test('the store that a pull made is there after a restart', { timeout: 60_000 }, async (t) => {
  const { config } = await newHub(t)
  const node = await startNode(t, { config, env })
  const at = (url: string): string[] => ['--home', node.home, '--url', url]
  t.match(await svc(['pull', MODEL, ...at(node.url)]), { status: 0 })
  await node.kill()
  const again = await startNode(t, { home: node.home, env })
  const listed = await svc(['ls', '--json', ...at(again.url)])
  t.match(JSON.parse(listed.stdout), { models: [{ modelId: MODEL }] })
})
