import t, { type Test } from 'tap'
import OpenAI from 'openai'
import { Ollama } from 'ollama'
import { kernelError } from '../../../kernel/index.js'
import { embeddingList, numbersOf } from '../api/embeddings.js'
import { ollamaEmbedded } from '../api/ollama/embed.js'
import { truncated } from '../../runners/language/vectors.js'
import { card, MODEL, startChat, type Kit } from './api-kit.js'
import { encoderSession, engineOpen } from './embed-kit.js'

const URL_ = '/v1/embeddings'
const norm = (vector: readonly number[]): number => Math.hypot(...vector)

t.test('numbers are read back exactly as 32-bit floats', (t) => {
  const floats = Float32Array.of(0.1, -1 / 3, 1e-30, 16777217, 0)
  const bytes = new Uint8Array(floats.buffer)
  t.same(Float32Array.from(numbersOf(bytes)), floats)
  t.equal(JSON.stringify(numbersOf(bytes)).length < 60, true)
  const unaligned = new Uint8Array(21)
  unaligned.set(bytes, 1)
  t.same(Float32Array.from(numbersOf(unaligned.subarray(1))), floats, 'wherever the bytes lie')
  t.end()
})

t.test('many vectors do not hold up the node: they are written over several turns', async (t) => {
  const vectors = Array.from({ length: 64 }, (_, n) =>
    new Uint8Array(Float32Array.from({ length: 1024 }, (_, i) => i === 0 ? n : 0).buffer))
  const made = { vectors, tokens: 1 }
  for (const write of [
    async () => await embeddingList(made, MODEL, 'float'), async () => await ollamaEmbedded(made, MODEL, 1)
  ]) {
    let turns = 0
    let writing = true
    const turn = (): void => {
      turns++
      if (writing) setImmediate(turn)
    }
    setImmediate(turn)
    const answer = JSON.stringify(await write())
    writing = false
    t.ok(turns >= 3, `${turns} turns`)
    t.match(answer, /\[0,0,/)
    t.match(answer, /\[63,0,/, 'the last one too')
  }
})

async function start (t: Test, config = {}): Promise<Kit> {
  return await startChat(t, {
    open: engineOpen(await encoderSession(t.testdir())), config, cards: [{ ...card, tasks: ['embeddings'] }]
  })
}

t.test('a real encoder behind the routes', async (t) => {
  const { post, asked } = await start(t)
  interface Answer { data: { embedding: number[] }[] }
  const many = await post(URL_, { model: MODEL, input: ['hello', 'what is this?', [17, 14, 21, 21, 24]] })
  t.equal(many.statusCode, 200, many.body)
  t.match(many.json(), {
    object: 'list', model: MODEL, usage: { prompt_tokens: 23, total_tokens: 23 },
    data: [{ object: 'embedding', index: 0 }, { index: 1 }, { index: 2 }]
  })
  t.ok(many.headers['x-svc-task-id'])
  const { data: [hello, other, ids] } = many.json() as Answer
  t.same(ids!.embedding, hello!.embedding, 'the same tokens')
  t.notSame(other!.embedding, hello!.embedding)
  t.ok(Math.abs(norm(hello!.embedding) - 1) < 1e-6)
  const cut = await post(URL_, { model: MODEL, input: 'hello', dimensions: 8 })
  const short = (cut.json() as Answer).data[0]!
  t.equal(short.embedding.length, 8)
  t.ok(Math.abs(norm(short.embedding) - 1) < 1e-6, 'cut and made length 1 again')
  const coded = await post(URL_, { model: MODEL, input: 'hello', encoding_format: 'base64' })
  const bytes = Buffer.from((coded.json() as { data: { embedding: string }[] }).data[0]!.embedding, 'base64')
  t.same(numbersOf(bytes), hello!.embedding)
  t.match(asked.tasks, [{ kind: 'embed' }, { kind: 'embed' }, { kind: 'embed' }])

  const refused: [object, number, object][] = [
    [{ input: 'hello', dimensions: 999 }, 400,
      { param: 'dimensions', message: /vectors of this model have 32/ }],
    [{ input: 'a'.repeat(200) }, 400, { reason: 'context_length_exceeded', details: { prompt_tokens: 200 } }],
    [{ input: ['hello', [9999]] }, 400, { reason: 'invalid_request', param: 'input.1' }],
    [{ input: [] }, 400, { param: 'input' }],
    [{ input: 'hello', encoding_format: 'int8' }, 400, { param: 'encoding_format' }],
    [{ input: 'hello', model: 'acme/none' }, 404, { reason: 'no_instance' }]
  ]
  for (const [more, status, error] of refused) {
    const answer = await post(URL_, { model: MODEL, ...more })
    t.equal(answer.statusCode, status, answer.body)
    t.match(answer.json(), { error })
  }
})

t.test('a text that does not fit is truncated on request, by Ollama\'s routes unless refused', async (t) => {
  const { post } = await start(t)
  const vector = async (input: unknown, more: object = {}): Promise<number[]> => {
    const answer = await post(URL_, { model: MODEL, input, ...more })
    t.equal(answer.statusCode, 200, answer.body)
    return (answer.json() as { data: { embedding: number[] }[] }).data[0]!.embedding
  }
  const long = 'hello '.repeat(200)
  const { tokens, max_model_len: most } = (await post('/v1/tokenize', { model: MODEL, prompt: long }))
    .json<{ tokens: number[], max_model_len: number }>()
  t.same(await vector(long, { truncate_prompt_tokens: -1 }), await vector(tokens.slice(0, most)))
  t.same(await vector(long, { truncate_prompt_tokens: 7 }), await vector(tokens.slice(0, 7)))
  t.same(await vector('hello', { truncate_prompt_tokens: 100 }), await vector('hello'), 'one that fits')
  for (const [body, error] of [
    [{ input: long }, {
      reason: 'context_length_exceeded', details: { prompt_tokens: Number, remedy: /truncate_prompt_tokens/ },
      message: new RegExp(`maximum context length is ${most} tokens.*chunks.*truncate_prompt_tokens: -1`)
    }],
    [{ input: 'x', truncate_prompt_tokens: 0 }, { param: 'truncate_prompt_tokens' }],
    [{ input: 'x', truncate_prompt_tokens: -2 }, { param: 'truncate_prompt_tokens' }]
  ] as const) {
    const answer = await post(URL_, { model: MODEL, ...body })
    t.equal(answer.statusCode, 400, answer.body)
    t.match(answer.json(), { error })
  }
  const cut = await vector(long, { truncate_prompt_tokens: -1 })
  for (const truncate of [undefined, null, true]) {
    const answer = await post('/ollama/api/embed', { model: MODEL, input: long, truncate })
    t.same(answer.json<{ embeddings: number[][] }>().embeddings, [cut], answer.body.slice(0, 200))
  }
  const older = await post('/ollama/api/embeddings', { model: MODEL, prompt: long })
  t.same(older.json<{ embedding: number[] }>().embedding, cut)
  const refused = await post('/ollama/api/embed', { model: MODEL, input: long, truncate: false })
  t.match(refused.json(), { code: 'context_length_exceeded', error: /maximum context length/ })
  t.notMatch(refused.body, /truncate_prompt_tokens: -1/, 'a field of another API')
})

t.test('the closing token of a model stays when its text is truncated', (t) => {
  const rows: [number[], number, number[], number[]][] = [
    [[1, 7, 8, 9, 2], 4, [1, 2], [1, 7, 8, 2]], [[1, 7, 8, 9], 3, [1], [1, 7, 8]],
    [[7, 8, 9, 2], 3, [2], [7, 8, 2]], [[7, 8, 9], 2, [], [7, 8]], [[1, 7, 2], 3, [1, 2], [1, 7, 2]],
    [[1, 7, 8, 2], 1, [1, 2], [1]]
  ]
  for (const [ids, most, empty, expected] of rows) t.same(truncated(ids, most, empty), expected)
  t.end()
})

t.test('the capability gives the same answer', async (t) => {
  const { rig, post } = await start(t, { max_inputs: 2 })
  const listing = await rig.inject({ url: '/v1/capabilities' })
  const { revisions } = listing.json() as { revisions: Record<string, string> }
  const call = async (payload: object) => await post('/v1/capabilities/call', {
    capability_id: 'embeddings', version: '1.0.0', descriptor_revision: revisions['embeddings@1.0.0'], payload
  })
  const route = await post(URL_, { model: MODEL, input: 'hello' })
  t.match((await call({ model: MODEL, input: 'hello' })).json(), { ok: true, result: route.json() as object })
  t.match((await call({ model: MODEL, input: ['a', 'b', 'c'] })).json(),
    { error: { reason: 'invalid_request', message: /at most 2/ } }, 'max_inputs')
})

t.test('the official clients', async (t) => {
  const { rig } = await start(t)
  const url = await rig.listen()
  const defaultHeaders = { authorization: null }
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, defaultHeaders })
  const { data } = await openai.embeddings.create({ model: MODEL, input: ['hello', 'hello'] })
  const floats = await openai.embeddings.create({ model: MODEL, input: 'hello', encoding_format: 'float' })
  t.equal(data[0]!.embedding.length, 32, 'it asks for base64 and reads it')
  t.ok(data[0]!.embedding.every((value, i) => Math.abs(value - floats.data[0]!.embedding[i]!) < 1e-7))
  const ollama = new Ollama({ host: `${url}/ollama` })
  const made = await ollama.embed({ model: MODEL, input: ['hello', 'a'], dimensions: 8 })
  t.match(made, { model: MODEL, prompt_eval_count: 6, total_duration: Number })
  t.same(made.embeddings.map(({ length }) => length), [8, 8])
  t.same((await ollama.embeddings({ model: MODEL, prompt: 'hello' })).embedding, floats.data[0]!.embedding)
  const refused = await ollama.embed({ model: 'acme/none', input: 'a' }).catch((error: unknown) => error)
  t.match(refused, { status_code: 404, message: /acme\/none/ })
})

t.test('a lost instance is tried again where the client wants that', async (t) => {
  const media = new Uint8Array(Float32Array.of(1, 0).buffer)
  const { post } = await startChat(t, { open: async function * (_task, _signal, instanceId) {
    yield { payload: { kind: 'embedding', index: 0, dimensions: 2 }, media }
    if (instanceId === 'i1') throw kernelError('instance_lost')
    yield { payload: { kind: 'done', usage: { prompt_tokens: 3 } } }
  } })
  const answer = await post(URL_, { model: MODEL, input: 'a' }, { 'x-svc-retry': '1' })
  t.match(answer.json(), { data: [{ embedding: [1, 0] }], usage: { prompt_tokens: 3 } })
})

t.test('documents are ranked, the best first', async (t) => {
  const { post, asked } = await startChat(t, {
    cards: [{ ...card, tasks: ['rerank'] }], config: { max_inputs: 3 },
    open: async function * () { yield { payload: { scores: [0.2, 0.9, 0.5], tokens: 11 } } }
  })
  const body = { model: MODEL, query: 'q', documents: ['a', { text: 'b' }, 'c'] }
  const all = await post('/v1/rerank', body)
  t.same(all.json(), {
    object: 'list', model: MODEL, usage: { prompt_tokens: 11, total_tokens: 11 },
    results: [[1, 0.9], [2, 0.5], [0, 0.2]].map(([index, score]) => ({ index, relevance_score: score }))
  })
  t.match(asked.tasks, [{ kind: 'rerank', payload: { query: 'q', documents: ['a', 'b', 'c'] } }])
  const best = await post('/v1/rerank', { ...body, top_n: 1 })
  t.same((best.json() as { results: object[] }).results, [{ index: 1, relevance_score: 0.9 }])
  for (const [more, param] of [
    [{ documents: [] }, 'documents'], [{ documents: [7] }, 'documents.0'],
    [{ documents: [{}] }, /documents.0/],
    [{ query: '' }, 'query'], [{ documents: ['a', 'b', 'c', 'd'] }, 'documents'], [{ top_n: 0 }, 'top_n']
  ] as const) t.match((await post('/v1/rerank', { ...body, ...more })).json(), { error: { param } })
})
