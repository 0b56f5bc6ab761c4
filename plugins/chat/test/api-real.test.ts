import '../../runners/test/process-plain-spawn.js'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import t from 'tap'
import OpenAI from 'openai'
import { BundleService, systemClock } from '../../../kernel/index.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import type { Rig, TestContext } from '../../../kernel/testing/index.js'
import { createRunners } from '../../runners/index.js'
import { createSupervisor } from '../../runners/process/supervisor.js'
import { InstanceService, RunnersService } from '../../runners/service.js'
import { machine, soloInstance } from '../../runners/test/samples.js'
import plugin from '../index.js'
import { manifest } from '../manifest.js'
import { values } from './api-kit.js'
import { SHARED, specOf, withoutShared } from './engine-kit.js'

/** A runner is a process of the built product, and so is its engine. */
const built = new URL('../../../dist/plugins/chat/engine/index.js', import.meta.url)
const skip = withoutShared || (existsSync(built) ? false : 'needs the built engine: npm run build')

const MODEL = 'karpathy/stories260k'

/** The plugin with real runners: a process that has loaded the small real model. */
async function start (t: TestContext): Promise<{ rig: Rig, url: string }> {
  const directory = `${SHARED}/data/stories260K/optimum`
  const { card } = await specOf(directory, {
    modelId: MODEL, tasks: ['chat', 'completions'], contextLength: 512, totalBytes: 1_209_429
  })
  const decl = { ...manifest.engines['onnx-lm'], module: built.href }
  const engine = { name: 'onnx-lm', owner: 'chat', decl }
  const bundle = fake(BundleService, {
    engine: () => engine,
    engines: () => [engine],
    model: (id) => id === MODEL ? { card, directory } : undefined,
    models: () => [{ card, directory }]
  })
  const runners = createRunners({ createSupervisor, probe: machine(), uid: process.getuid?.() ?? 0 })
  const rig = await startPlugin(t, plugin, { plugins: [runners], fakes: [bundle], clock: systemClock })
  // Its timers do not keep a process; an open port does.
  const url = await rig.listen()
  const { localNodeId: nodeId } = (await rig.inject({ url: '/state' })).json() as { localNodeId: string }
  const ids = { instanceId: randomUUID(), runnerId: randomUUID(), nodeId }
  await rig.service(InstanceService).place(soloInstance(ids, card), { force: true })
  while (!rig.service(RunnersService).models('completions').some(({ ready }) => ready)) {
    await new Promise((resolve) => { setImmediate(resolve) })
  }
  return { rig, url }
}

t.test('a real model in a real process', { skip }, async (t) => {
  const { rig, url } = await start(t)
  const client = new OpenAI({
    baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0,
    defaultHeaders: { authorization: null }
  })
  const request = { model: MODEL, prompt: 'Once upon a time', max_tokens: 12, temperature: 0 }
  const whole = await client.completions.create(request)
  t.match(whole, { choices: [{ text: /^, there was a little girl named/, finish_reason: 'length' }] })
  t.equal(whole.usage?.completion_tokens, 12)
  let text = ''
  for await (const chunk of await client.completions.create({ ...request, stream: true })) {
    text += chunk.choices[0]?.text ?? ''
  }
  t.equal(text, whole.choices[0]?.text)

  const post = async (url: string, payload: object) => await rig.inject({ method: 'POST', url, payload })
  const tokenized = await post('/v1/tokenize', { model: MODEL, prompt: 'Once upon' })
  interface Tokens { tokens: number[], count: number, max_model_len: number }
  const { tokens, count, max_model_len: most } = tokenized.json() as Tokens
  t.equal(tokens.length, count)
  t.equal(most, 512)
  t.match((await post('/v1/detokenize', { model: MODEL, tokens })).json(), { prompt: /Once upon/ })

  const messages = [{ role: 'user' as const, content: 'Once upon a time' }]
  const asked = { model: MODEL, messages, max_tokens: 12, temperature: 0 }
  const chat = await client.chat.completions.create(asked)
  t.match(chat, { choices: [{ message: { content: /there was a little girl/ }, finish_reason: 'length' }] })
  const anthropic = await post('/v1/messages', asked)
  t.match(anthropic.json(), { content: [{ text: /there was a little girl/ }], stop_reason: 'max_tokens' })
  const ollama = await post('/ollama/api/generate', {
    model: MODEL, prompt: 'Once upon a time', stream: false, options: { num_predict: 12, temperature: 0 }
  })
  t.match(ollama.json(), { response: /there was a little girl/, done_reason: 'length', eval_count: 12 })

  const endless = { model: MODEL, messages, temperature: 0, logit_bias: { 2: -100 } }
  const stream = await client.chat.completions.create({ ...endless, stream: true })
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content !== '') stream.controller.abort()
  const working = async (): Promise<unknown[]> =>
    Object.values(((await rig.inject({ url: '/state' })).json() as { tasks: object }).tasks)
      .filter((task) => /"(Pending|Running)"/.test(JSON.stringify(task)))
  while ((await working()).length > 0) await new Promise((resolve) => { setImmediate(resolve) })
  t.pass('a reader that goes away ends the work')

  for (const stream of [false, true]) {
    const prompt = 'Once upon a time. '.repeat(300)
    const over = await post('/v1/completions', { ...request, prompt, stream })
    t.equal(over.statusCode, 400)
    const reason = 'context_length_exceeded'
    t.match(over.json(), { error: { reason, message: /^context_length_exceeded/ } })
  }
  const bias = await post('/v1/completions', { ...request, logit_bias: { 99999: 1 } })
  t.match(bias.json(), { error: { reason: 'invalid_request', param: 'logit_bias' } })
  const stats = await post('/v1/completions', { ...request, stream: true })
  t.match(stats.body, /: generation_stats \{"prompt_tps":[\d.]+,"generation_tps":[\d.]+,"prompt_tokens":\d+/)
  t.equal(values(stats.body).length > 3, true)
})
