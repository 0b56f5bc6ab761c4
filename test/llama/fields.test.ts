/** A real llama-server accepts and obeys every field that the engine sends. */
import t from 'tap'
import { ask, chunksOf } from '../../plugins/llama-cpp/test/llama-kit.js'
import type { AnswerChunk, TokenReport } from '../../plugins/runners/language/chunks.js'
import { loaded, skipStories, storyteller } from './kit.js'

type Payload = Record<string, unknown>

const reported = (pieces: AnswerChunk[]): TokenReport[] =>
  pieces.flatMap(({ choices }) => choices.flatMap(({ logprobs }) => logprobs?.content ?? []))

t.test('text completion', { skip: skipStories }, async (t) => {
  const { session, server } = await loaded(t, storyteller(), { max_batch: 2 })
  await session.warmup()
  const prompt = 'Once upon a time'
  const complete = async (params: Payload = {}, more: Payload = {}) =>
    await ask(session, 'completion', { prompt, max_tokens: 20, ...more, ...params })
  const greedy = { temperature: 0 }
  const likeliest = (await complete(greedy)).text
  const idsOf = async (text: string): Promise<number[]> => {
    const [chunk] = await chunksOf(session, 'tokenize', { prompt: text, add_special_tokens: false })
    return chunk?.payload['tokens'] as number[]
  }

  await t.test('the likeliest tokens, through every parameter', async (t) => {
    t.match(likeliest, /^, there was a /)
    const narrow = { top_k: 1, top_p: 1e-6, min_p: 1 }
    for (const [name, value] of Object.entries(narrow)) {
      t.equal((await complete({ temperature: 1, [name]: value, seed: 5 })).text, likeliest, name)
    }
    const wide = { temperature: 0.01, top_k: 0, top_p: 1, min_p: 0 }
    t.equal((await complete({ ...wide, seed: 1 })).text, likeliest, 'a temperature near 0')
    // The maximum of `top_k` in the documented table of parameters.
    t.equal((await complete({ ...greedy, top_k: 2 ** 31 })).text, likeliest, 'no bound')
  })

  await t.test('a seed gives the same answer again, another one another', async (t) => {
    const of = async (seed: number): Promise<string> =>
      (await complete({ temperature: 1, seed })).text
    const texts = await Promise.all([1, 2, 3, 1, -1, 2 ** 40].map(of))
    t.equal(texts[0], texts[3])
    t.equal(new Set(texts).size, 5)
    const { pieces } = await complete({ temperature: 1, seed: 1 }, { n: 2 })
    const answer = (index: number): string => pieces.flatMap(({ choices }) => choices)
      .filter((choice) => choice.index === index).map(({ text = '' }) => text).join('')
    t.same([answer(0), answer(1)], texts.slice(0, 2), 'each of several answers has its own')
    const free = await Promise.all(Array.from({ length: 3 }, async () => (await complete()).text))
    t.ok(new Set(free).size > 1, 'no seed')
    t.not((await complete({ temperature: 100, seed: 1 })).text, texts[0], 'the highest temperature')
  })

  await t.test('penalties apply to the prompt and the whole answer', async (t) => {
    const many = { max_tokens: 120 }
    const repeats = async (params: Payload): Promise<number> => {
      const { pieces } = await complete({ ...greedy, logprobs: true, ...params }, many)
      const tokens = reported(pieces).map(({ token }) => token)
      return tokens.length - new Set(tokens).size
    }
    const plain = await repeats({})
    t.ok(plain > 40, `${plain} tokens come again`)
    t.equal(await repeats({ repetition_penalty: 100 }), 0)
    t.ok(await repeats({ presence_penalty: 2 }) < plain)
    t.ok(await repeats({ frequency_penalty: 2 }) < plain)
    t.ok(await repeats({ frequency_penalty: -2, presence_penalty: -2 }) > plain)
    t.match(await server('/props'), { default_generation_settings: { n_ctx: 256 } })
    t.equal(await repeats({ repetition_penalty: 100, repeat_last_n: -1 }), 0)
    t.equal(await repeats({ repetition_penalty: 100, repeat_last_n: 0 }), plain, 'a window of none')
    const few = await repeats({ repetition_penalty: 100, repeat_last_n: 8 })
    t.ok(few > 0 && few < plain, `${few} tokens come again within a window`)
  })

  await t.test('a bias', async (t) => {
    const firstOf = async (params: Payload): Promise<{ id: number, text: string }> => {
      const { logit_bias: bias = {} } = params
      const { completion_probabilities: [token] } = await server('/completion', {
        prompt, n_predict: 1, n_probs: 2, temperature: 0,
        logit_bias: Object.entries(bias as object).map(([id, value]) => [Number(id), value as number])
      }) as { completion_probabilities: { id: number, token: string }[] }
      return { id: token!.id, text: token!.token }
    }
    const { id: likely } = await firstOf({})
    const { id: other, text } = await firstOf({ logit_bias: { [likely]: -100 } })
    t.not(other, likely)
    const only = await complete({ ...greedy, logit_bias: { [other]: 100 } }, { max_tokens: 3 })
    t.equal(only.text, text.repeat(3))
  })

  await t.test('the token limit, and stop texts', async (t) => {
    for (const tokens of [1, 7, 20]) {
      t.match((await complete(greedy, { max_tokens: tokens })).done,
        { finish_reason: 'length', usage: { completion_tokens: tokens } })
    }
    const stopped = await complete(greedy, { stop: ['never', ' was'] })
    t.equal(stopped.text, likeliest.slice(0, likeliest.indexOf(' was')))
    t.match(stopped.done, { finish_reason: 'stop', stop_text: ' was' })
  })

  await t.test('log probabilities', async (t) => {
    const { pieces, text } = await complete({ ...greedy, logprobs: true, top_logprobs: 3 })
    const tokens = reported(pieces)
    t.equal(tokens.length, 20)
    t.equal(tokens.map(({ token }) => token).join(''), text)
    for (const { token, logprob, top_logprobs: top } of tokens) {
      t.equal(top.length, 3)
      t.match(top[0], { token, logprob }, 'the likeliest was taken')
      const falling = [0, ...top.map((each) => each.logprob ?? 0)]
      t.same([...falling].sort((a, b) => b - a), falling)
    }
    const none = await complete({ ...greedy, logprobs: true })
    t.match(reported(none.pieces)[0], { top_logprobs: [] })
  })

  await t.test('a grammar', async (t) => {
    const json = async (json_schema: Payload): Promise<unknown> =>
      JSON.parse((await complete({ ...greedy, json_schema }, { max_tokens: 200 })).text)
    const schema = {
      type: 'object', additionalProperties: false, required: ['n', 'kind'],
      properties: { n: { type: 'integer', minimum: 1, maximum: 9 }, kind: { enum: ['a', 'b'] } }
    }
    const made = await json(schema) as { n: number, kind: string }
    t.ok(made.n >= 1 && made.n <= 9 && ['a', 'b'].includes(made.kind), JSON.stringify(made))
    t.equal((await complete({ ...greedy, grammar: 'root ::= "yes"' })).text, 'yes', 'in its own format')
    await t.rejects(json({ type: 'nothing' }), { message: /refused/ })
  })

  await t.test('tokens, and counts of them', async (t) => {
    const text = 'Once upon a time, Lily saw a big dog.'
    const [chunk] = await chunksOf(session, 'tokenize', { prompt: text })
    const ids = chunk?.payload['tokens'] as number[]
    t.match(chunk?.payload, { count: ids.length, context_length: 256 })
    const [back] = await chunksOf(session, 'detokenize', { tokens: ids })
    t.match(back?.payload['text'], text)
    t.same(ids.slice(1), await idsOf(text), 'without the first, which is special')
    const asked = { max_tokens: 4, ...greedy }
    const whole = await ask(session, 'completion', { prompt: text, ...asked })
    const given = await ask(session, 'completion', { prompt: ids, ...asked })
    t.equal(given.text, whole.text, 'ids in place of the text')
    t.match(given.done, { usage: {
      prompt_tokens: ids.length, prompt_tokens_details: { cached_tokens: ids.length - 1 }
    } }, 'kept')
    t.match(whole.pieces[0], { choices: [], usage: { prompt_tokens: ids.length } })
  })
})
