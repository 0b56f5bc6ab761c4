import { join } from 'node:path'
import t from 'tap'
import { SpanRecorder } from '../../runners/process/span-recorder.js'
import type { EngineSession } from '../../../kernel/api/engine.js'
import { bindEncoder } from '../embed/bind.js'
import engine from '../embed/index.js'
import { callsOf } from '../embed/session.js'
import { normalised } from '../../runners/language/vectors.js'
import { pool, pooledByName, poolingOf } from '../embed/vectors.js'
import { encoderSession, quietEnv, refusal, specOf, writeEncoder } from './embed-kit.js'

async function embed (session: EngineSession, payload: Record<string,
  unknown>): Promise<{ vectors: Float32Array[], done: unknown }> {
  const vectors: Float32Array[] = []
  let done: unknown
  for await (const { payload: piece, media } of session.run({ kind: 'embed', payload },
    new AbortController().signal)) {
    if (piece['kind'] === 'done') done = piece
    else vectors[Number(piece['index'])] = new Float32Array(Uint8Array.from(media!).buffer)
  }
  return { vectors, done }
}

const TEXTS = ['a', 'hello world', 'the quick brown fox', 'hello', 'what is this?']
const apart = (a: Float32Array, b: Float32Array): number =>
  Math.max(...a.map((value, i) => Math.abs(value - b[i]!)))
const norm = (vector: Float32Array): number => Math.hypot(...vector)

t.test('vectors of a batch are those of each text alone', async (t) => {
  for (const [i, pooling] of [undefined, { pooling_mode_lasttoken: true }, { pooling_mode_cls_token: true },
    { pooling_mode_max_tokens: true }].entries()) {
    const session = await encoderSession(join(t.testdir(), String(i)), pooling)
    await session.warmup()
    const { vectors, done } = await embed(session, { input: TEXTS })
    t.match(done, { usage: { prompt_tokens: TEXTS.join('').length } })
    for (const [k, text] of TEXTS.entries()) {
      const { vectors: [alone] } = await embed(session, { input: text })
      t.ok(apart(alone!, vectors[k]!) < 1e-6)
      t.ok(Math.abs(norm(alone!) - 1) < 1e-6)
    }
    t.ok(apart(vectors[0]!, vectors[1]!) > 0.01, 'texts differ')
    await session.close?.()
  }
})

t.test('a traced request has a span for each batch', async (t) => {
  const session = await encoderSession(t.testdir())
  let now = 0
  const trace = new SpanRecorder(() => ++now)
  const task = { kind: 'embed', payload: { input: Array.from({ length: 40 }, () => 'hello') }, trace }
  for await (const chunk of session.run(task, new AbortController().signal)) void chunk
  t.same(trace.spans().map(({ name, category, startMs, endMs, attrs }) =>
    [name, category, startMs, endMs, attrs]), [
    ['embed', 'prefill', 1, 2, { texts: 32, tokens: 160 }],
    ['embed', 'prefill', 3, 4, { texts: 8, tokens: 40 }]
  ])
})

t.test('shorter vectors, vectors as they are, and token ids', async (t) => {
  const session = await encoderSession(t.testdir())
  const { vectors: [whole] } = await embed(session, { input: 'hello', normalize: false })
  const { vectors: [short] } = await embed(session, { input: 'hello', dimensions: 8 })
  t.equal(short!.length, 8)
  t.ok(apart(short!, normalised(whole!, 8)) < 1e-6)
  const { vectors: [byIds] } = await embed(session, { input: [17, 14, 21, 21, 24], normalize: false })
  t.same(byIds, whole)
  t.equal((await embed(session, { input: [[5, 6], [7]] })).vectors.length, 2)
})

t.test('what cannot be embedded', async (t) => {
  const session = await encoderSession(t.testdir())
  const table: Array<[object, object]> = [
    [{ input: [] }, { message: /input is empty/ }],
    [{ input: '' }, { message: /input 0 has no tokens/ }],
    [{ input: ['a', 5] }, { message: /text or token ids/ }],
    [{}, { message: /text or token ids/ }],
    [{ input: 'a', dimensions: 0 }, { message: /dimensions is 0/ }],
    [{ input: 'a', dimensions: 33 }, { message: /dimensions is 33, but vectors of this model have 32/ }],
    [{ input: ['a', [99]] }, { details: { issues: [{ path: 'input.1' }] } }],
    [{ input: ['a', 'b'.repeat(129)] }, { reason: 'context_length_exceeded',
      details: { index: 1, prompt_tokens: 129 } }]
  ]
  for (const [payload, expected] of table) t.match(await refusal(embed(session, { ...payload })), expected)
  const chat = session.run({ kind: 'chat', payload: {} }, new AbortController().signal)
  t.match(await refusal(chat[Symbol.asyncIterator]().next()), { message: /serves embed/ })
  const aborted = session.run({ kind: 'embed', payload: { input: 'a' } }, AbortSignal.abort())
  t.match(await aborted[Symbol.asyncIterator]().next(), { done: true })
  const missing = encoderSession(join(t.testdirName, 'odd'), { pooling_mode_weightedmean_tokens: true })
  t.match(await refusal(missing), { reason: 'model_invalid',
    message: /pooling_mode_weightedmean_tokens is not supported/ })
})

t.test('ways of pooling', (t) => {
  const rows = [[1, -2], [3, 8]].map((row) => Float32Array.from(row))
  t.same([...pool(rows, 'mean')], [2, 3])
  t.same([...pool(rows, 'last')], [3, 8])
  t.same([...pool(rows, 'first')], [1, -2])
  t.same([...pool(rows, 'max')], [3, 8])
  t.same([...normalised(Float32Array.of(0, 0))], [0, 0])
  t.equal(poolingOf(null, 'mean'), 'mean')
  t.equal(pooledByName('Xenova/bge-small-en-v1.5'), 'first')
  t.equal(pooledByName('Xenova/all-MiniLM-L6-v2'), 'mean')
  t.equal(poolingOf({ pooling_mode_lasttoken: true }, 'mean'), 'last')
  const both = { pooling_mode_mean_tokens: true, pooling_mode_max_tokens: true }
  t.throws(() => poolingOf(both, 'mean'), /mean_tokens and/)
  t.end()
})

t.test('texts of similar length share a call', (t) => {
  t.same(callsOf([]), [])
  t.same(callsOf([5, 1500, 3, 1500]), [[2, 0], [1], [3]])
  t.equal(callsOf(Array.from({ length: 100 }, () => 2)).length, 4)
  t.same(callsOf([9000]), [[0]], 'a long one goes alone')
  t.same(callsOf([4, 4, 2], 1), [[2], [0], [1]], 'where one scale holds for a call')
  t.end()
})

t.test('a decoder that makes vectors is fed an empty cache', (t) => {
  const ids = { name: 'input_ids', type: 'int64', shape: ['b', 's'] }
  const past = { name: 'past_key_values.0.key', type: 'float16', shape: ['b', 2, 'past', 4] }
  const output = { name: 'last_hidden_state', type: 'float32', shape: ['b', 's', 8] }
  const { pasts } = bindEncoder([ids, past], [output], { kvHeads: 0, headSize: 0 })
  t.same(pasts[0]?.dims(3), [3, 2, 0, 4])
  t.equal(pasts[0]?.type, 'float16')
  t.throws(() => bindEncoder([ids, { ...past, name: 'pixels' }], [output], { kvHeads: 0, headSize: 0 }),
    /"pixels"/)
  t.throws(() => bindEncoder([ids], [{ ...output, name: 'x' }], { kvHeads: 0, headSize: 0 }),
    /no output with vectors/)
  t.end()
})

t.test('a language model is refused with the way to get it as GGUF', async (t) => {
  const folder = t.testdir()
  await writeEncoder(folder)
  const card = { modelId: 'acme/Qwen3-0.6B-ONNX', family: 'qwen3', tasks: ['chat', 'completions'] }
  t.match(await refusal(engine.load(await specOf(folder, card), quietEnv())), {
    reason: 'model_invalid',
    message: 'acme/Qwen3-0.6B-ONNX is a language model (qwen3) in ONNX, and language models run in ' +
      'GGUF only: `svc search Qwen3-0.6B gguf` finds it as GGUF, ' +
      '`svc pull ORG/Qwen3-0.6B-GGUF` downloads it'
  })
})

t.test('token ids of a text, and back', async (t) => {
  const session = await encoderSession(t.testdir())
  const first = async (kind: string, payload: Record<string, unknown>): Promise<unknown> => {
    for await (const { payload: chunk } of session.run({ kind, payload }, new AbortController().signal)) {
      return chunk
    }
  }
  const tokens = [17, 14, 21, 21, 24]
  t.same(await first('tokenize', { prompt: 'hello' }),
    { kind: 'tokens', tokens, count: 5, context_length: 128 })
  t.same(await first('detokenize', { tokens }), { kind: 'text', text: 'hello' })
  t.match(await refusal(first('detokenize', { tokens: [99] })), { details: { issues: [{ path: 'tokens' }] } })
})
