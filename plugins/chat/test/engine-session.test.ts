import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { EngineSession } from '../../../kernel/api/engine.js'
import { inner as engine } from '../engine/index.js'
import type { Delta, Done } from '../engine/pieces.js'
import { SHARED, ask, piecesOf, quietEnv, refusal, specOf, withoutShared, writeModel } from './engine-kit.js'
import { makeDecoder, type DecoderShape } from './engine-onnx.js'

interface Opening { shape?: DecoderShape, options?: Record<string, unknown>, files?: Record<string, unknown> }

async function tiny (
  dir: string, { shape, options, files, contextLength }: Opening & { contextLength?: number } = {}
): Promise<EngineSession> {
  await writeModel(dir, shape, files)
  const spec = await specOf(dir, {}, options)
  return await engine.load(contextLength === undefined ? spec : { ...spec, contextLength }, quietEnv())
}

const chat = (content: string, more: object = {}): Record<string, unknown> =>
  ({ messages: [{ role: 'user', content }], max_tokens: 20, params: { temperature: 0 }, ...more })

t.test('an answer comes in pieces and ends with the facts', async (t) => {
  const env = quietEnv()
  await writeModel(t.testdir())
  const session = await engine.load(await specOf(t.testdirName), env)
  await session.warmup()
  env.announced.length = 0
  const { text, deltas, done } = await ask(session, 'chat', chat('hello'))
  t.ok(text.length > 0 && deltas.length > 1)
  t.match(done, {
    kind: 'done', index: 0, usage: { prompt_tokens: 8, cached_tokens: 0 },
    stats: { prompt_tps: Number, generation_tps: Number, peak_memory_bytes: Number }
  })
  t.same(env.announced[0], { label: 'prefill', units: 8 }, 'work is announced in tokens')
  t.same(env.announced[1], { label: 'decode', units: 1 })
  t.equal((await ask(session, 'chat', chat('hello'))).text, text)
  t.match(session.info(), { contextLength: 128, vocabularySize: 64, batches: 'padded left',
    lastTokenOnly: true, newEntriesOnly: true })
  await session.close?.()
})

t.test('the next turn of a conversation is fed only what is new, with the same result', async (t) => {
  const dir = t.testdir()
  const session = await tiny(dir)
  const first = await ask(session, 'chat', chat('tell me more'))
  const messages = [
    { role: 'user', content: 'tell me more' }, { role: 'assistant', content: first.text },
    { role: 'user', content: 'and then?' }
  ]
  const second = await ask(session, 'chat', { messages, max_tokens: 20, params: { temperature: 0 } })
  t.ok(second.done.usage.cached_tokens >= 14, `${second.done.usage.cached_tokens} tokens were known`)
  const other = await tiny(join(dir, 'other'), { options: { prefix_cache_bytes: 0 } })
  const again = await ask(other, 'chat', { messages, max_tokens: 20, params: { temperature: 0 } })
  t.equal(again.done.usage.cached_tokens, 0)
  t.equal(again.text, second.text)
})

t.test('many at once answer as each alone, sampled with a seed too', async (t) => {
  const session = await tiny(t.testdir())
  const payloads = Array.from({ length: 8 }, (_, i) => chat('x'.repeat(i * 5 + 1), {
    max_tokens: 10 + 3 * i, params: { temperature: i % 2 === 0 ? 0 : 1.3, seed: 40 + i, top_p: 0.95 }
  }))
  const alone: string[] = []
  for (const payload of payloads) alone.push((await ask(session, 'chat', payload)).text)
  const together = await Promise.all(payloads.map(async (payload) =>
    (await ask(session, 'chat', payload)).text))
  t.same(together, alone)
  t.ok(new Set(alone).size > 4, 'they differ')
})

t.test('n answers to one prompt', async (t) => {
  const session = await tiny(t.testdir())
  const payload = chat('hi', { n: 3, params: { temperature: 1.5, seed: 5 } })
  const pieces = await piecesOf(session, 'chat', payload)
  t.same(pieces.filter(({ kind }) => kind === 'done').map(({ index }) => index).sort(), [0, 1, 2])
  const texts = [0, 1, 2].map((wanted) => pieces.filter(({ index }) => index === wanted)
    .map((piece) => piece.kind === 'delta' ? piece.text : '').join(''))
  t.equal(new Set(texts).size, 3)
  const second = await ask(session, 'chat', chat('hi', { params: { temperature: 1.5, seed: 6 } }))
  t.equal(second.text, texts[1], 'the second one has the next seed')
})

t.test('log probabilities of every token', async (t) => {
  const session = await tiny(t.testdir())
  const payload = chat('hello', { params: { temperature: 0, logprobs: true, top_logprobs: 3 } })
  const { text, deltas, done } = await ask(session, 'chat', payload)
  const tokens = deltas.flatMap((delta) => delta.tokens ?? [])
  t.equal(tokens.map((token) => token.text).join(''), text)
  t.ok(done.usage.completion_tokens - tokens.length <= 1, 'all but the end')
  for (const { id, logprob, top } of tokens) {
    t.equal(top.length, 3)
    t.equal(top[0]?.id, id, 'the likeliest was chosen')
    t.ok(logprob !== null && logprob <= 0)
  }
  t.equal((await ask(session, 'chat', chat('hello'))).deltas[0]?.tokens, undefined, 'not asked for')
})

t.test('stop strings end an answer before them', async (t) => {
  const session = await tiny(t.testdir())
  const { text } = await ask(session, 'chat', chat('hello'))
  const stop = text.slice(4, 7)
  const cut = await ask(session, 'chat', chat('hello', { stop }))
  t.equal(cut.text, text.slice(0, text.indexOf(stop)))
  t.equal(cut.done.finish_reason, 'stop')
})

t.test('the context: at the limit, one under, one over, and a million tokens', async (t) => {
  const session = await tiny(t.testdir(), { contextLength: 40 })
  const fill = async (tokens: number, more: object = {}): Promise<Done> =>
    (await ask(session, 'completion', { prompt: 'a'.repeat(tokens),
      params: { temperature: 0, logit_bias: { 1: -100 } }, ...more })).done
  t.match(await fill(39), { finish_reason: 'length', usage: { prompt_tokens: 39, completion_tokens: 1 } })
  t.match(await fill(38, { max_tokens: 1_000_000 }),
    { finish_reason: 'length', usage: { completion_tokens: 2 } })
  for (const tokens of [40, 41, 1000]) {
    t.match(await refusal(fill(tokens)), {
      reason: 'context_length_exceeded', message: /maximum context length is 40 tokens, .* has \d+ tokens$/,
      details: { prompt_tokens: tokens, context_length: 40 }
    })
  }
})

t.test('an aborted answer ends silently and frees its slot', async (t) => {
  const session = await tiny(t.testdir(), { options: { max_batch: 1 } })
  const endless = chat('hello', { max_tokens: 100, params: { temperature: 0, logit_bias: { 1: -100 } } })
  const abort = new AbortController()
  const pieces: Array<Delta | Done> = []
  for await (const { payload } of session.run({ kind: 'chat', payload: endless }, abort.signal)) {
    pieces.push(payload as unknown as Delta)
    if (pieces.length === 4) abort.abort()
  }
  t.same(pieces.map(({ kind }) => kind), ['admitted', 'delta', 'delta', 'delta'])
  t.ok((await ask(session, 'chat', chat('x', { max_tokens: 2 }))).done, 'the only slot is free')
  t.same(await piecesOf(session, 'chat', endless, AbortSignal.abort()), [])
})

t.test('64 clients that connect and vanish', async (t) => {
  const dir = t.testdir()
  const session = await tiny(dir, { options: { max_batch: 4 } })
  const steady = ask(session, 'chat', chat('steady', { max_tokens: 30 }))
  await Promise.all(Array.from({ length: 64 }, async (_, i) => {
    const abort = new AbortController()
    const run = session.run({ kind: 'chat', payload: chat(`client ${i}`) }, abort.signal)
    const iterator = run[Symbol.asyncIterator]()
    const first = iterator.next()
    if (i % 2 === 0) await first
    abort.abort()
    await first
    await iterator.return?.()
  }))
  const alone = await tiny(join(dir, 'alone'))
  t.equal((await steady).text, (await ask(alone, 'chat', chat('steady', { max_tokens: 30 }))).text)
})

t.test('a full queue refuses', async (t) => {
  const session = await tiny(t.testdir(), { options: { max_batch: 1, max_queue: 2 } })
  const abort = new AbortController()
  const open = Array.from({ length: 3 }, async (_, i) =>
    await piecesOf(session, 'chat', chat(`n ${i}`), abort.signal))
  await new Promise((resolve) => { setImmediate(resolve) })
  t.match(await refusal(piecesOf(session, 'chat', chat('too many', { n: 2 }))), {
    reason: 'overloaded', message: /test\/model has 3 answers to write already; at most 3 may/
  })
  abort.abort()
  await Promise.all(open)
})

t.test('options of a wrong type', async (t) => {
  t.match(await refusal(tiny(t.testdir(), { options: { max_batch: 0 } })),
    { reason: 'model_invalid', message: /max_batch is 0: it takes a number from 1 up/ })
  t.match(await refusal(tiny(t.testdir(), { options: { exact_products: 'yes' } })),
    { reason: 'model_invalid', message: /exact_products is "yes": it takes true or false/ })
})

t.test('what a request may not say', async (t) => {
  const session = await tiny(t.testdir())
  const table: Array<[object, RegExp]> = [
    [{ messages: [] }, /messages takes at least one/],
    [{ messages: [{ role: 'user', content: [1] }] }, /messages takes/],
    [{ messages: 'hello' }, /messages takes/],
    [{ max_tokens: 0 }, /max_tokens is 0, but takes a whole number from 1/],
    [{ max_tokens: 1.5 }, /max_tokens is 1.5/],
    [{ n: 1000 }, /n is 1000/],
    [{ stop: [''] }, /stop takes texts/],
    [{ params: { temperature: -1, top_p: 2 } }, /params.temperature is -1.*; params.top_p is 2/],
    [{ params: { temperature: NaN } }, /params.temperature/],
    [{ params: { seed: 0.5 } }, /params.seed takes a whole number/],
    [{ params: { logit_bias: { 64: 1 } } }, /params.logit_bias maps token ids below 64/],
    [{ params: { logit_bias: { 5: 1000 } } }, /params.logit_bias/],
    [{ params: { grammar: { kind: 'poem' } } }, /params.grammar/],
    [{ params: 7 }, /params is no object/]
  ]
  for (const [payload, message] of table) {
    t.match(await refusal(piecesOf(session, 'chat', { ...chat('x'), ...payload })),
      { reason: 'invalid_request', message })
  }
  t.match(await refusal(piecesOf(session, 'completion', { prompt: [99] })), { message: /below 64/ })
  t.match(await refusal(piecesOf(session, 'completion', { prompt: '' })), { message: /empty/ })
  t.match(await refusal(piecesOf(session, 'tts', {})), { message: /serves chat, completion, .* not tts/ })
})

t.test('tokens of a text and back', async (t) => {
  const session = await tiny(t.testdir())
  const [{ payload: tokens }] = await all(session, 'tokenize', { prompt: 'hello world' })
  t.match(tokens, { kind: 'tokens', count: 11, context_length: 128 })
  const [{ payload: text }] = await all(session, 'detokenize', { tokens: tokens['tokens'] })
  t.same(text, { kind: 'text', text: 'hello world' })
  const [{ payload: chatted }] = await all(session, 'tokenize',
    { messages: [{ role: 'user', content: 'hi' }] })
  t.same(chatted['tokens'], [2, 17, 18, 1, 3])
  t.match(await refusal(all(session, 'detokenize', { tokens: 'x' })), { reason: 'invalid_request' })
})

async function all (session: EngineSession, kind: string, payload: Record<string,
  unknown>): Promise<[{ payload: Record<string, unknown> }]> {
  const chunks = []
  for await (const chunk of session.run({ kind, payload }, new AbortController().signal)) chunks.push(chunk)
  return chunks as [{ payload: Record<string, unknown> }]
}

t.test('NaN logits fail the answer', async (t) => {
  const session = await tiny(t.testdir(), { shape: { nanAfter: 12 } })
  const endless = chat('hello', { params: { temperature: 0, logit_bias: { 1: -100 } } })
  t.match(await refusal(piecesOf(session, 'chat', endless)), { reason: 'provider_error', message: /NaN/ })
})

t.test('parameters the makers recommend', async (t) => {
  const dir = t.testdir()
  const greedy = await tiny(dir, { files: { 'generation_config.json': { do_sample: false } } })
  const payload = chat('hello', { params: { seed: 3 } })
  const free = await tiny(join(dir, 'free'), { files: { 'generation_config.json': { temperature: 1.9 } } })
  t.equal((await ask(greedy, 'chat', payload)).text, (await ask(greedy, 'chat', chat('hello'))).text)
  t.not((await ask(free, 'chat', payload)).text, (await ask(greedy, 'chat', payload)).text)
})

t.test('models that cannot be loaded say why', async (t) => {
  const load = async (dir: string, options = {}, card = {}): Promise<unknown> =>
    await engine.load(await specOf(dir, card, options), quietEnv())
  const broken = t.testdir()
  await writeModel(broken)
  await writeFile(join(broken, 'config.json'), '{')
  t.match(await refusal(load(broken)), { reason: 'model_invalid', message: /config.json is not JSON/ })
  await writeModel(broken)
  t.match(await refusal(load(broken, { dtype: 'q4' })),
    { message: /no graph of dtype q4: it has model.onnx/ })
  t.match(await refusal(load(broken, { kv_cache_bytes: 'x' })), { message: /option kv_cache_bytes is x/ })
  t.match(await refusal(load(broken, {}, { contextLength: 0, files: [] })), { reason: 'model_incomplete' })
  await writeFile(join(broken, 'model.onnx'), makeDecoder().subarray(0, 60_000))
  t.match(await refusal(load(broken)), { reason: 'model_invalid', message: /onnxruntime cannot load/ })
  const spec = await specOf(broken)
  await rm(join(broken, 'model.onnx'))
  t.match(await refusal(engine.load(spec, quietEnv())), { reason: 'model_incomplete', message: /model.onnx/ })
  await writeModel(broken)
  const elsewhere = { ...await specOf(broken), backend: 'tpu' }
  t.match(await refusal(engine.load(elsewhere, quietEnv())),
    { reason: 'no_backend', message: /has cpu, cuda, webgpu/ })
})

t.test('a small budget makes a small context', async (t) => {
  const session = await tiny(t.testdir(), { options: { kv_cache_bytes: 512 * 31 } })
  t.match(session.info(), { contextLength: 30, cacheBytesPerToken: 512 })
  const payload = chat('hello', { max_tokens: 100, params: { temperature: 0, logit_bias: { 1: -100 } } })
  t.match((await ask(session, 'chat', payload)).done,
    { finish_reason: 'length', usage: { completion_tokens: 22 } })
})

const GOLDEN = [
  'Once upon a time, there was a little girl named Lily. She loved to play outside in the park. ',
  'One day, she saw a big, red ball. She wanted to play with it, but it was too high.\n',
  'Lily\'s mom said, "Lily, let\'s go to the park." Lily was sad and didn\'t know what to do. ',
  'She said, "I want to play with your ball, but I can\'t find it."\n',
  'Lily was sad and didn\'t know what to do. She said, "I\'m sorry, Lily. I didn\'t know what to do."\n',
  'Lily didn\'t want to help her mom, so she'
].join('')

for (const layout of ['optimum', 'genai-gqa']) {
  t.test(`the published text of stories260K, ${layout}`, { skip: withoutShared }, async (t) => {
    const spec = await specOf(join(SHARED, 'data/stories260K', layout), { contextLength: 512 })
    const session = await engine.load(spec, quietEnv())
    const start = { prompt: [1], max_tokens: 200, params: { temperature: 0 } }
    const prompts = ['Tim', 'One day, a big dog', 'The', 'Lily and Tom like to play in the sun. They']
    const payloads = [start, ...prompts.map((prompt) => ({ ...start, prompt, max_tokens: 60 }))]
    const alone: string[] = []
    for (const payload of payloads) alone.push((await ask(session, 'completion', payload)).text)
    t.equal(alone[0]!.trimStart(), GOLDEN)
    const together = await Promise.all(payloads.map(async (payload) =>
      (await ask(session, 'completion', payload)).text))
    t.same(together, alone)
  })
}
