/** Lifecycle of a real llama-server: its start, its slots, cancelled answers, and its exit. */
import { statSync } from 'node:fs'
import { request } from 'node:http'
import t from 'tap'
import { ask, chunksOf, lives, textIn, until } from '../../plugins/llama-cpp/test/llama-kit.js'
import { loaded, generatedModel, skipGenerated, skipStories, storyteller, type Real } from './kit.js'

type Payload = Record<string, unknown>

/** A task whose answer takes seconds. */
const TASK = { kind: 'completion', payload: { prompt: 'Go on', max_tokens: 8000, seed: 1 } }

const busy = async ({ server }: Real): Promise<number> =>
  (await server('/slots') as Payload[]).filter((slot) => slot['is_processing'] === true).length

/** Status of a request over the socket file, without a key unless `headers` has one. */
async function statusOf (path: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  return await new Promise((resolve, reject) => {
    request({ socketPath: 'llama.sock', path, headers }, (answer) => {
      answer.resume()
      resolve(answer.statusCode)
    }).on('error', reject).end()
  })
}

t.test('a socket file and a key', { skip: skipStories }, async (t) => {
  const { session, env, server } = await loaded(t, storyteller(), { max_batch: 2 })
  t.ok(statSync('llama.sock').isSocket())
  for (const path of ['/props', '/slots', '/v1/models', '/completion']) {
    t.ok([401, 200].includes(await statusOf(path) ?? 0), path)
  }
  t.equal(await statusOf('/props'), 401)
  t.equal(await statusOf('/props', { authorization: 'Bearer another' }), 401)
  t.match(await server('/props'), { total_slots: 2 })
  t.match(session.info(), { contextLength: 256, answersAtOnce: 2, build: /^b\d+-/ })
  t.same(env.progressed.at(-1), [1_185_344, 1_185_344])
  t.same(env.logs.filter((line) => /^(warn|error) /.test(line)), [], 'nothing to complain about')
})

t.test('a prompt that is too long', { skip: skipStories }, async (t) => {
  const { session } = await loaded(t, storyteller(), { max_batch: 1 })
  const long = { prompt: 'Once upon a time '.repeat(400) }
  const error = await ask(session, 'completion', long).catch((thrown: unknown) => thrown)
  t.match(error, {
    reason: 'context_length_exceeded',
    message: /^context_length_exceeded: this model's maximum context length is 256/,
    details: { prompt_tokens: Number, context_length: 256 }
  })
  const chat = { messages: [{ role: 'user', content: 'Once upon a time '.repeat(400) }] }
  const second = await ask(session, 'chat', chat).catch((thrown: unknown) => thrown)
  t.match(second, { reason: 'context_length_exceeded', details: { context_length: 256 } })
  const [counted] = await chunksOf(session, 'tokenize', { prompt: 'Once upon a time' })
  const count = Number(counted?.payload['count'])
  const full = await ask(session, 'completion', {
    prompt: 'Once upon a time', temperature: 0, logit_bias: { 2: -100, 1: -100 }
  })
  t.match(full.done, { finish_reason: 'length' }, 'an answer ends where the context does')
  const { completion_tokens: made } = full.done['usage'] as { completion_tokens: number }
  t.ok(made >= 256 - count - 1 && made <= 256 - count + 1, `${made} tokens after ${count}`)
})

t.test('several slots at once', { skip: skipStories }, async (t) => {
  const real = await loaded(t, storyteller(), { max_batch: 4 })
  const prompts = ['Once upon a time', 'Lily saw a dog', 'The sun was', 'Tom had a ball', 'One day', 'A cat']
  const say = async (prompt: string): Promise<string> =>
    (await ask(real.session, 'completion', { prompt, max_tokens: 40, temperature: 0 })).text
  const alone: string[] = []
  for (const prompt of prompts) alone.push(await say(prompt))
  t.same(await Promise.all(prompts.map(say)), alone, 'no answer is of another, more than there are slots')
  while (await busy(real) > 0);
})

t.test('a cancelled answer frees its slot', { skip: skipGenerated }, async (t) => {
  const real = await loaded(t, generatedModel(t), { max_batch: 2 })
  const times: number[] = []
  for (let i = 0; i < 5; i++) {
    const abort = new AbortController()
    const stream = real.session.run(TASK, abort.signal)[Symbol.asyncIterator]()
    while (textIn((await stream.next()).value?.payload ?? {}) === undefined);
    t.equal(await busy(real), 1)
    const from = performance.now()
    abort.abort()
    while (await busy(real) > 0);
    times.push(performance.now() - from)
    t.same(await stream.next(), { done: true, value: undefined })
  }
  t.ok(Math.min(...times) <= 200, `free after ${times.map(Math.round).join(', ')} ms`)
})

t.test('a disconnected reader frees its slot, too', { skip: skipGenerated }, async (t) => {
  const real = await loaded(t, generatedModel(t), { max_batch: 2 })
  for await (const { payload } of real.session.run(TASK, new AbortController().signal)) {
    if (textIn(payload) !== undefined) break
  }
  while (await busy(real) > 0);
  t.pass('it is free')
})

t.test('kill -9', { skip: skipGenerated }, async (t) => {
  const real = await loaded(t, generatedModel(t), { max_batch: 2 })
  const stream = real.session.run(TASK, new AbortController().signal)
  let pieces = 0
  const read = async (): Promise<void> => {
    for await (const { payload } of stream) {
      if (textIn(payload) !== undefined && ++pieces === 3) process.kill(real.pid, 'SIGKILL')
    }
  }
  const error = await read().catch((thrown: unknown) => thrown)
  t.match(error, { reason: 'instance_lost', message: /^llama-server was ended by SIGKILL/ })
  await until('the runner gets the cancellation', () => real.deaths.length === 1)
  t.notOk(lives(real.pid))
})

t.test('an orderly end', { skip: skipStories }, async (t) => {
  const { session, pid, deaths } = await loaded(t, storyteller())
  await session.close?.()
  t.notOk(lives(pid))
  t.same(deaths, [])
})

t.test('a file that is no model', { skip: skipGenerated }, async (t) => {
  const model = generatedModel(t)
  const files = [{ path: 'other.gguf', role: 'weights', bytes: 4 }]
  const absent = loaded(t, { ...model, card: { ...model.card, files } })
  await t.rejects(absent, { message: /^llama-server exited with code 1: .*fail/ })
})
