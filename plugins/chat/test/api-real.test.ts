import t from 'tap'
import OpenAI from 'openai'
import { createBundle } from '../../runners/cards/bundle.js'
import { manifest } from '../manifest.js'
import { values } from './api-kit.js'
import { startReal, withoutBuild, type RealRunner } from './real-runner-kit.js'
import type { TestContext } from '../../../kernel/testing/index.js'

const MODEL = 'svc/guide'

/** A runner process with the bundled model. */
async function start (t: TestContext): Promise<RealRunner> {
  const { card, directory } = createBundle({ manifests: [manifest], off: [] }).model(MODEL)!
  const real = await startReal(t, { card, directory })
  await real.ready()
  return real
}

t.test('a real model in a real process', { skip: withoutBuild }, async (t) => {
  const { rig, url } = await start(t)
  const client = new OpenAI({
    baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0,
    defaultHeaders: { authorization: null }
  })
  const request = { model: MODEL, prompt: 'how do i stop a model', max_tokens: 12, temperature: 0 }
  const whole = await client.completions.create(request)
  t.ok(whole.choices[0]!.text.length > 5, whole.choices[0]!.text)
  let text = ''
  for await (const chunk of await client.completions.create({ ...request, stream: true })) {
    text += chunk.choices[0]?.text ?? ''
  }
  t.equal(text, whole.choices[0]?.text)

  const post = async (url: string, payload: object) => await rig.inject({ method: 'POST', url, payload })
  const tokenized = await post('/v1/tokenize', { model: MODEL, prompt: 'how do i stop' })
  interface Tokens { tokens: number[], count: number, max_model_len: number }
  const { tokens, count, max_model_len: most } = tokenized.json() as Tokens
  t.equal(tokens.length, count)
  t.equal(most, 512)
  t.match((await post('/v1/detokenize', { model: MODEL, tokens })).json(), { prompt: /how do i stop/ })

  const messages = [{ role: 'user' as const, content: 'how do i stop a model' }]
  const asked = { model: MODEL, messages, max_tokens: 12, temperature: 0 }
  const chat = await client.chat.completions.create(asked)
  const said = chat.choices[0]!.message.content!
  t.match(said, /svc stop/)
  t.match(chat, { choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 12 } })
  const anthropic = await post('/v1/messages', asked)
  t.match(anthropic.json(), { content: [{ text: said }], stop_reason: 'max_tokens' })
  const ollama = await post('/ollama/api/generate', {
    model: MODEL, prompt: messages[0]!.content, stream: false, options: { num_predict: 12, temperature: 0 }
  })
  t.match(ollama.json(), { response: said, done_reason: 'length', eval_count: 12 })

  const endless = { model: MODEL, messages, temperature: 0, logit_bias: { 1: -100 } }
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
  t.match(bias.json(), { choices: [{ finish_reason: 'length' }] }, 'no token of this model')
  const stats = await post('/v1/completions', { ...request, stream: true })
  t.match(stats.body, /: generation_stats \{"prompt_tps":[\d.]+,"generation_tps":[\d.]+,"prompt_tokens":\d+/)
  t.equal(values(stats.body).length > 3, true)
})
