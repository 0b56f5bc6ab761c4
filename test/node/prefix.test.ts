/** Three nodes with an instance each: the turns of a chat go to the one that has it in its cache. */
import t from 'tap'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { tinyCard } from '../../plugins/llama-cpp/test/embedded-kit.js'
import { tinyModel } from '../../plugins/llama-cpp/test/gguf-kit.js'
import { askWithin, instancesCluster, instancesOf, placeOn, view } from './instances-kit.js'
import { fixture, folder, sleep, until, type TestNode } from './kit.js'

const MODEL = 'test/tiny'
const CONTEXT = 2048
const SESSION = 'a-session-of-this-test'
type Turn = { role: string, content: string }

/** How each API sends a conversation. */
const apis: [string, string, (messages: Turn[]) => object][] = [
  ['OpenAI', '/v1/chat/completions', (messages) => ({ messages, max_tokens: 4 })],
  ['Responses', '/v1/responses', (input) => ({ input, max_output_tokens: 16 })],
  ['Anthropic', '/v1/messages', (messages) => ({ messages, max_tokens: 4 })],
  ['Ollama', '/ollama/api/chat', (messages) => ({ messages, stream: false, options: { num_predict: 4 } })]
]

t.test('three nodes', { timeout: 240_000 }, async (t) => {
  const models = folder(t)
  const file = tinyModel({ context: CONTEXT })
  mkdirSync(join(models, 'tiny'))
  writeFileSync(join(models, 'tiny/tiny.gguf'), file)
  writeFileSync(join(models, 'tiny/card.yaml'), stringify(tinyCard({
    modelId: MODEL, files: [{ path: 'tiny.gguf', role: 'weights', bytes: file.length }],
    totalBytes: file.length, contextLength: CONTEXT
  })))
  const cluster = await instancesCluster(t, {
    nodes: 3, env: { PATH: '/usr/bin:/bin', TEST_MODELS: pathToFileURL(`${models}/`).href },
    plugins: { 'test-models': { module: fixture('models.mjs') } }
  })
  const nodes = cluster.members.map(({ node }) => node)
  for (const member of cluster.members) await placeOn(cluster, member, MODEL)
  for (const node of nodes) {
    await until('three ready instances', async () => {
      const { runners } = await view(node)
      return Object.values(runners).filter((status) => 'RunnerReady' in status).length === 3
    })
  }
  t.equal((await instancesOf(nodes[0]!, MODEL)).length, 3)

  /** Sends a request; returns the instance that served it. */
  const served = async (at: TestNode, path: string, body: object, headers = {}): Promise<string> => {
    const answer = await askWithin(at, path, { body: { model: MODEL, ...body }, headers })
    t.equal(answer.status, 200, answer.text.slice(0, 300))
    const taskId = String(answer.headers['x-svc-task-id'])
    return await until('the task', async () => (await view(at)).tasks[taskId]?.Inference?.instanceId)
  }

  for (const [name, path, bodyOf] of apis) {
    await t.test(`the second turn at another node goes to the instance of the first: ${name}`, async (t) => {
      const seen = new Set<string>()
      for (const [n, node] of nodes.entries()) {
        const messages = [{ role: 'user', content: `${name} ${n} ${'asks of the sea '.repeat(20)}` }]
        const home = await served(node, path, bodyOf(messages))
        seen.add(home)
        // A node without work prefers its own instance, so only the news of the first turn lead elsewhere.
        await sleep(1200)
        const longer = [...messages, { role: 'assistant', content: 'ok' }, { role: 'user', content: 'and?' }]
        for (const other of nodes) t.equal(await served(other, path, bodyOf(longer)), home, other.url)
      }
      t.equal(seen.size, 3, 'each node began with its own')
    })
  }

  await t.test('a session leads without a common prefix, and nothing of it leaves', async (t) => {
    const say = async (at: TestNode, content: string): Promise<string> => await served(at,
      '/v1/chat/completions', { messages: [{ role: 'user', content }] }, { 'x-session-id': SESSION })
    const home = await say(nodes[1]!, 'one')
    await sleep(1200)
    t.equal(await say(nodes[2]!, 'two'), home)
    t.equal(await say(nodes[0]!, 'three'), home)
    for (const { home } of nodes) t.equal(spawnSync('grep', ['-rq', SESSION, home]).status, 1, 'not on disk')
  })

  await t.test('the cache is really used', async (t) => {
    const messages = [{ role: 'user', content: 'Once upon a time '.repeat(40) }]
    const ask = async (at: TestNode): Promise<number> => {
      const body = { model: MODEL, messages, max_tokens: 2 }
      const { json } = await askWithin(at, '/v1/chat/completions', { body })
      return (json as { usage: { prompt_tokens_details: { cached_tokens: number } } })
        .usage.prompt_tokens_details.cached_tokens
    }
    t.equal(await ask(nodes[2]!), 0)
    await sleep(1200)
    t.ok(await ask(nodes[0]!) > 100)
  })
})
