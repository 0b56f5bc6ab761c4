/** Usage on two nodes: requests at the first one for a model of the second. */
import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { tinyCard } from '../../plugins/llama-cpp/test/embedded-kit.js'
import { tinyModel } from '../../plugins/llama-cpp/test/gguf-kit.js'
import { ask, open } from './http.js'
import { askWithin, instancesCluster, placeOn, view } from './instances-kit.js'
import { fixture, folder, sleep, svc, until, type TestNode } from './kit.js'

const MODEL = 'test/tiny'
/** Logit biases against all end tokens, so an answer does not end. */
const ENDLESS = { 256: -100, 257: -100, 258: -100 }
const messages = [{ role: 'user', content: 'Once upon a time '.repeat(20) }]

interface Usage {
  prompt_tokens: number, completion_tokens?: number, prompt_tokens_details?: { cached_tokens: number }
}
interface Row { key: string, label: string | null, requests: number, failed: number, prompt_tokens: number,
  cached_tokens: number, output_tokens: number }
interface Listed { rows: Row[], total: Row, not_asked: { name: string }[] }

t.test('two nodes', { timeout: 240_000 }, async (t) => {
  const models = folder(t)
  const file = tinyModel({ context: 2048 })
  mkdirSync(join(models, 'tiny'))
  writeFileSync(join(models, 'tiny/tiny.gguf'), file)
  writeFileSync(join(models, 'tiny/card.yaml'), stringify(tinyCard({
    modelId: MODEL, files: [{ path: 'tiny.gguf', role: 'weights', bytes: file.length }],
    totalBytes: file.length, contextLength: 2048
  })))
  const cluster = await instancesCluster(t, {
    nodes: 2, env: { PATH: '/usr/bin:/bin', TEST_MODELS: pathToFileURL(`${models}/`).href },
    plugins: { 'test-models': { module: fixture('models.mjs') } }
  })
  const [a, b] = [cluster.members[0]!, cluster.members[1]!]
  await placeOn(cluster, b, MODEL)
  await until('the model at the first node', async () =>
    Object.values((await view(a.node)).runners).some((status) => 'RunnerReady' in status))
  const usageAt = async (at: TestNode, query = '', token = at.token): Promise<Listed> =>
    (await ask({ url: at.url, token }, `/v1/usage?${query}`)).json as Listed
  const tokenOf = async (label: string) => (await ask(a.node, '/v1/tokens', {
    body: { label, authorities: ['read', 'invoke'] }
  })).json as { token: string, record: { id: string } }
  const [made, other] = [await tokenOf('phone'), await tokenOf('other')]
  const phone = { ...a.node, token: made.token }

  const sums = { requests: 0, prompt_tokens: 0, cached_tokens: 0, output_tokens: 0 }
  const counted = (usage: Usage): void => {
    sums.requests++
    sums.prompt_tokens += usage.prompt_tokens
    sums.cached_tokens += usage.prompt_tokens_details?.cached_tokens ?? 0
    sums.output_tokens += usage.completion_tokens ?? 0
  }
  const bodies: [string, object][] = [
    ['/v1/chat/completions', { messages, max_tokens: 4 }],
    ['/v1/chat/completions', { messages, max_tokens: 7 }],
    ['/v1/completions', { prompt: 'once', max_tokens: 5, n: 2 }],
    ['/v1/completions', { prompt: ['once', 'upon a time'], max_tokens: 3 }]
  ]
  for (const [path, body] of bodies) {
    const answer = await askWithin(phone, path, { body: { model: MODEL, ...body } })
    t.equal(answer.status, 200, answer.text.slice(0, 300))
    counted((answer.json as { usage: Usage }).usage)
    const streamed = await askWithin(phone, path,
      { body: { model: MODEL, ...body, stream: true, stream_options: { include_usage: true } } })
    const events = streamed.text.split('\n').filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)) as { usage?: Usage | null })
    counted(events.find(({ usage }) => usage != null)!.usage!)
  }
  await t.test('the figures are those of the answers, at either node, for their caller too', async (t) => {
    for (const at of [a.node, b.node]) {
      const { rows, total, not_asked: missing } = await usageAt(at)
      t.match(rows, [{ key: made.record.id, failed: 0, ...sums }])
      t.equal(rows[0]!.label, 'phone')
      t.match([total, missing], [sums, []])
      t.match((await usageAt(at, 'by=node')).rows, [{ key: a.name, requests: sums.requests }])
      t.match((await usageAt(at, 'by=model')).rows, [{ key: MODEL, ...sums }])
    }
    t.match((await usageAt(a.node, '', made.token)).rows, [{ key: made.record.id, ...sums }])
    t.same((await usageAt(a.node, '', other.token)).rows, [])
    const at = ['--url', b.node.url, '--token', b.node.token]
    const { stdout } = await svc(['usage', '--by', 'model', '--csv', ...at])
    const { requests, prompt_tokens: prompt, cached_tokens: cached, output_tokens: output } = sums
    t.match(stdout, `\n${MODEL},,${requests},0,${prompt},${cached},${output},0,0\n`)
  })

  await t.test('an aborted stream counts what was generated', async (t) => {
    const response = await open(a.node, '/v1/chat/completions', { body: {
      model: MODEL, messages: [{ role: 'user', content: 'go on' }], stream: true, logit_bias: ENDLESS,
      max_tokens: 1500
    } })
    let deltas = 0
    for await (const part of response) {
      deltas += String(part).split('"content":').length - 1
      if (deltas > 20) break
    }
    response.destroy()
    const row = await until('the count', async () =>
      (await usageAt(a.node)).rows.find(({ key }) => key === 'operator'))
    t.match(row, { requests: 1, failed: 0 })
    t.ok(row.prompt_tokens > 0 && row.output_tokens >= deltas - 1, `${row.output_tokens} of ${deltas}`)
    t.ok(row.output_tokens < 1500)
  })

  await t.test('kill -9 keeps what is older than 5 s, and a node that is gone is named', async (t) => {
    const before = await usageAt(a.node)
    await sleep(6000)
    await a.kill()
    await until('the other node to name it', async () =>
      (await usageAt(b.node)).not_asked.some(({ name }) => name === a.name))
    await a.start()
    await cluster.agreed()
    t.same((await until('both', async () => {
      const usage = await usageAt(a.node)
      return usage.not_asked.length === 0 && usage
    })).rows, before.rows)
  })
})
