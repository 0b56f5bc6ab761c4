/** Embeddings and rerank scores of a real llama-server. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { chunksOf, folder } from '../../plugins/llama-cpp/test/llama-kit.js'
import { load, tinyCard } from '../../plugins/llama-cpp/test/embedded-kit.js'
import { rankingModel } from '../../plugins/llama-cpp/test/gguf-kit.js'
import { loaded, generatedModel, noPrograms, skipGenerated, type Real } from './kit.js'

const vectors = async ({ session }: Real, payload: Record<string, unknown>): Promise<number[][]> =>
  (await chunksOf(session, 'embed', payload)).flatMap(({ media }) => media === undefined
    ? []
    : [[...new Float32Array(media.slice().buffer)]])
const length = (vector: number[]): number => Math.hypot(...vector)
const alike = (a: number[], b: number[]): number => a.reduce((sum, x, i) => sum + x * b[i]!, 0)

/** GGUF pooling type: last token. */
const LAST = 3
/** GGUF pooling type: reranker. */
const RANK = 4

t.test('an encoder', { skip: skipGenerated }, async (t) => {
  const made = { vocabulary: 'bert-bge', encoder: true, shape: { context: 512 } }
  const model = generatedModel(t, made, { tasks: ['embeddings'], contextLength: 512, family: 'bert' })
  const real = await loaded(t, model, { max_batch: 4 })
  await real.session.warmup()
  const texts = Array.from({ length: 40 }, (_, i) => `The ${i}th text is about rain. `.repeat(1 + i % 5))
  const all = await vectors(real, { input: texts })
  t.equal(all.length, texts.length)
  t.ok(all.every((vector) => vector.length === 64 && Math.abs(length(vector) - 1) < 1e-5), 'of length 1')
  for (const i of [0, 7, 39]) {
    const [alone] = await vectors(real, { input: texts[i]! })
    t.ok(alike(alone!, all[i]!) > 0.9999, 'in the order of the texts, the same alone')
  }
  t.ok(alike(all[0]!, all[1]!) < 0.99999, 'other texts, other vectors')
  const [raw] = await vectors(real, { input: texts[0]!, normalize: false })
  t.ok(Math.abs(length(raw!) - 1) > 1e-3, 'as the model made it')
  t.ok(alike(raw!, all[0]!) / length(raw!) > 0.9999)
  const [short] = await vectors(real, { input: texts[0]!, dimensions: 16 })
  t.match(short, { length: 16 })
  t.ok(Math.abs(length(short!) - 1) < 1e-5)
  const [{ payload }] = await chunksOf(real.session, 'tokenize', { prompt: texts[0] }) as
    [{ payload: { tokens: number[], count: number } }]
  t.ok(alike((await vectors(real, { input: payload.tokens }))[0]!, all[0]!) > 0.9999, 'from ids')
  const [done] = (await chunksOf(real.session, 'embed', { input: texts[0] })).slice(-1)
  t.match(done?.payload, { kind: 'done', usage: { prompt_tokens: payload.count } })
  const long = chunksOf(real.session, 'embed', { input: 'rain '.repeat(2000) })
  await t.rejects(long, { message: /^context_length_exceeded/ })
  t.equal((await vectors(real, { input: 'rain '.repeat(400) })).length, 1, 'one that just fits')
})

t.test('a decoder', { skip: skipGenerated }, async (t) => {
  const real = await loaded(t, generatedModel(
    t, { pooling: LAST }, { tasks: ['embeddings'], contextLength: 512 }))
  const [a, b] = await vectors(real, { input: ['It rains', 'It does not rain'] })
  t.ok(Math.abs(length(a!) - 1) < 1e-5 && alike(a!, b!) < 0.99999)
})

t.test('documents are ranked as by the library', { skip: noPrograms }, async (t) => {
  const directory = folder(t)
  writeFileSync(join(directory, 'tiny.gguf'), rankingModel())
  const qwen = { directory, card: tinyCard({ tasks: ['rerank'], family: 'qwen3' }) }
  const encoder = { vocabulary: 'bert-bge', encoder: true, pooling: RANK, shape: { context: 512 } }
  const bert = { tasks: ['rerank'], contextLength: 512, family: 'bert' }
  for (const model of [qwen, ...skipGenerated === false ? [generatedModel(t, encoder, bert)] : []]) {
    const server = await scoresOf((await loaded(t, model)).session)
    const library = await scoresOf((await load(t, model)).session)
    t.equal(new Set(server).size, 3, 'other documents, other scores')
    for (const [i, score] of server.entries()) {
      t.ok(Math.abs(score - library[i]!) < 1e-3, `${server.join(' ')}, ${library.join(' ')}`)
    }
  }
  async function scoresOf (session: Real['session']): Promise<number[]> {
    const documents = ['a cat sat on a mat', 'rain', 'the other day']
    const [first] = await chunksOf(session, 'rerank', { query: 'where is it', documents })
    return first!.payload['scores'] as number[]
  }
})
