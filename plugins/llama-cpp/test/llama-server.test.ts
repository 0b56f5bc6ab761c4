import { existsSync } from 'node:fs'
import t from 'tap'
import { SpanRecorder } from '../../runners/process/span-recorder.js'
import type { EngineError } from '../../../kernel/api/engine.js'
import { ask, chunksOf, lives, rig, structured, talk, textIn, until } from './llama-kit.js'

process.env['MALLOC_ARENA_MAX'] = '1'
// All tests except the last two share this stand-in.
const shared = await rig(t, { refusals: 3 })
const { session, journal, bodies } = shared
const never = new AbortController().signal

t.test('starts the server on a socket, with a key that is not on its command line', async (t) => {
  const { env, pid } = shared
  const [first] = journal()
  const args = first?.['start'] as string[]
  t.match(args.join(' '), /--model \S+\/model\/m\.gguf --host llama\.sock --api-key-file llama\.key /)
  t.match(args.join(' '), /--threads 1 --ctx-size 32768 --parallel 16 --no-ui --offline --jinja --no-co/)
  t.match(first, { model: true, parent: process.pid, key: /^[0-9a-f]{64}$/ })
  t.notOk('MALLOC_ARENA_MAX' in (first?.['env'] as object), 'one heap is for the runner, and slow here')
  t.notOk(args.includes(String(first?.['key'])), 'the key is in a file')
  t.notMatch(env.logs.join(), String(first?.['key']), 'and not in the log')
  t.notOk(existsSync('llama.key'), 'which is gone when the server is ready')
  t.ok(env.progressed.length >= 3, 'waiting is told')
  t.same(env.progressed.at(-1), [4, 4])
  t.match(session.info(), { contextLength: 2048, answersAtOnce: 16, build: 'b1-test', serverPid: pid })
  await session.warmup()
})

t.test('a chat streams text, counts and rates', async (t) => {
  const asked = talk('go', { max_tokens: 5, seed: -3, top_k: 3, mirostat: 2 })
  const { text, pieces, done } = await ask(session, 'chat', asked)
  t.equal(text, 'a b c')
  t.same(pieces[0], { choices: [], usage: { prompt_tokens: 15 } })
  t.same(pieces[1], { choices: [{ index: 0, delta: { content: 'a' } }] })
  t.match(done, {
    index: 0, finish_reason: 'stop', stop_text: null,
    usage: { prompt_tokens: 15, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 2 } },
    timings: { prompt_per_second: 100, predicted_per_second: 50 }
  })
  const { peak_memory_bytes: peak } = done['timings'] as Record<string, number>
  t.ok(process.platform !== 'linux' || Number(peak) > 1e6, 'the memory of the server')
  t.same(bodies('/v1/chat/completions')[0], {
    messages: [{ role: 'user', content: 'please go' }], max_tokens: 5, stream: true, top_k: 3, mirostat: 2,
    seed: 2 ** 32 - 4, cache_prompt: true, return_progress: true, stream_options: { include_usage: true }
  }, 'only what was asked for')
  t.match((await ask(session, 'chat', talk('cut'))).done, { finish_reason: 'length' })
})

t.test('what the server remembers between two images is asked for without that', async (t) => {
  const asked = bodies('/v1/chat/completions').length
  t.equal((await ask(session, 'chat', talk('between'))).text, 'a b c')
  t.match(bodies('/v1/chat/completions').slice(asked), [{ cache_prompt: true }, { cache_prompt: false }])
})

t.test('a traced answer tells the wait, the work on the prompt and each token', async (t) => {
  let now = 0
  const trace = new SpanRecorder(() => ++now)
  const task = { kind: 'chat', payload: talk('go', { n: 2 }), trace }
  for await (const chunk of session.run(task, never)) void chunk
  for (const suffix of ['', ' 1']) {
    const own = trace.spans().filter(({ name }) => name.endsWith(' 1') === (suffix !== ''))
      .sort((a, b) => a.startMs - b.startMs || a.endMs - b.endMs)
    t.same(own.map(({ name, category }) => [name, category]), [
      [`wait${suffix}`, 'queue'], [`prefill${suffix}`, 'prefill'], [`generate${suffix}`, 'generate'],
      [`decode${suffix}`, 'decode'], [`decode${suffix}`, 'decode']
    ])
    t.same(own[1]?.attrs, { tokens: 15 })
    t.same(own[2]?.attrs, { input_tokens: 15, output_tokens: 3, cached_tokens: 2 })
  }
})

t.test('reasoning and calls stay what the server made of them', async (t) => {
  const thinking = await ask(session, 'chat', talk('think'))
  t.same([thinking.text, structured(thinking).thought], ['yes', 'hmm'])
  const calling = await ask(session, 'chat', talk('call'))
  t.match(calling, { text: 'so ', done: { finish_reason: 'tool_calls' } })
  t.match(structured(calling).calls, [{ name: 'add', input: '{"a": "}"}' }, { name: 'now', input: '' }])
  const marked = await ask(session, 'chat', talk('marks'))
  t.same([marked.text, structured(marked)], ['<think>x</think><tool_call>', { thought: '', calls: [] }],
    'content is content, whatever it looks like')
})

t.test('a completion from a text, and from ids', async (t) => {
  const { text, done } = await ask(session, 'completion', { prompt: 'on cut', stop: ['x'], max_tokens: 4 })
  t.equal(text, 'a b c')
  const usage = { prompt_tokens: 6, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 2 } }
  t.match(done, { finish_reason: 'length', usage })
  await ask(session, 'completions', { prompt: [103, 111] })
  t.match(bodies('/completion').slice(-2),
    [{ prompt: 'on cut', stop: ['x'], n_predict: 4 }, { prompt: [103, 111] }])
})

t.test('several answers are requests of their own, each with its seed', async (t) => {
  const { pieces } = await ask(session, 'chat', talk('go', { n: 3, seed: 5 }))
  t.same(bodies('/v1/chat/completions').slice(-3).map(({ seed }) => seed).sort(), [5, 6, 7])
  t.equal(pieces.filter(({ choices }) => choices.length === 0).length, 1)
  for (const index of [0, 1, 2]) {
    const own = pieces.filter(({ choices: [choice] }) => choice?.index === index)
    t.equal(own.map((piece) => textIn(piece) ?? '').join(''), 'a b c')
    t.match(own.at(-1), { choices: [{ finish_reason: 'stop' }] })
  }
  t.equal(pieces.filter(({ choices: [choice] }) => choice?.finish_reason != null).length, 3)
})

t.test('log probabilities', async (t) => {
  for (const [kind, payload] of [['chat', talk('go')], ['completion', { prompt: 'go' }]] as const) {
    const { pieces } = await ask(session, kind, { ...payload, logprobs: true, top_logprobs: 2 })
    const one = { token: 'a', bytes: [97], logprob: -0.5 }
    t.same(pieces[1]?.choices[0]?.logprobs, { content: [
      { ...one, top_logprobs: [one, { token: '?', bytes: [63], logprob: -9999 }] }
    ] }, kind)
    const bare = await ask(session, kind, { ...payload, logprobs: true })
    t.same(bare.pieces[1]?.choices[0]?.logprobs, { content: [{ ...one, top_logprobs: [] }] })
  }
})

t.test('what the real server said is read', async (t) => {
  const said: Record<string, [text: string, done: object]> = {
    words: ['It is dry in Oslo today.', { finish_reason: 'stop', usage: { completion_tokens: 4 } }],
    cut: ['It is dry in', { finish_reason: 'length', usage: { completion_tokens: 2 } }],
    think: ['No, it is dry.', { finish_reason: 'stop' }],
    call: ['', { finish_reason: 'tool_calls' }]
  }
  for (const [name, [text, done]] of Object.entries(said)) {
    const answer = await ask(session, 'chat', talk(`recorded:${name}`))
    t.equal(answer.text, text, name)
    t.match(answer, { pieces: [{ choices: [] }], done }, name)
  }
  t.equal(structured(await ask(session, 'chat', talk('recorded:think'))).thought, 'Hm, rain or not?\n')
  t.match(structured(await ask(session, 'chat', talk('recorded:call'))).calls,
    [{ id: /./, name: 'clock', input: '{"zone": "utc"}' }])
  const completion = { completion: 'stop', 'completion cut': 'length' }
  for (const [name, reason] of Object.entries(completion)) {
    const { done } = await ask(session, 'completion', { prompt: `recorded:${name.replace(' ', '_')}` })
    t.match(done, { finish_reason: reason, stop_text: null }, name)
  }
  const { text, done } = await ask(session, 'completion', { prompt: 'recorded:completion_stop' })
  t.same([text, done['stop_text']], ['It is', ' dry'])
})

t.test('tokens', async (t) => {
  const one = async (kind: string, payload: Record<string, unknown>) =>
    (await chunksOf(session, kind, payload))[0]
  t.same((await one('tokenize', { prompt: 'hi' }))?.payload,
    { kind: 'tokens', tokens: [1, 104, 105], count: 3, context_length: 2048 })
  t.match((await one('tokenize', { prompt: 'hi', add_special_tokens: false }))?.payload, { count: 2 })
  t.match((await one('tokenize', { prompt: [4, 5] }))?.payload, { tokens: [4, 5] })
  t.match((await one('tokenize', talk('x')))?.payload, { count: 1 + 'user: please x'.length })
  t.same((await one('detokenize', { tokens: [104, 105] }))?.payload, { kind: 'text', text: 'hi' })
})

t.test('what the server refuses or fails at', async (t) => {
  const refused = async (payload: Record<string, unknown>, kind = 'chat') =>
    await chunksOf(session, kind, payload).then(() => undefined, (error: unknown) => error as EngineError)
  const long = await refused(talk('x'.repeat(3000)))
  t.match(long, {
    reason: 'context_length_exceeded', details: { prompt_tokens: 3013, context_length: 2048 },
    message: /^context_length_exceeded: .* maximum context length is 2048 tokens, .* has 3013 tokens/
  })
  t.match(await refused(talk('refuse')), {
    reason: 'invalid_request', message: /^llama-server refused the request: .*JSON schema error at #/
  })
  t.match(await refused(talk('fail')), { reason: 'provider_error', message: /no free slot in the KV cache/ })
  t.match(await refused(talk('garbage')), { reason: 'provider_error' })
  t.match(await refused(talk('half')), { reason: 'provider_error', message: /ended a response early/ })
  t.match(await refused(talk('late')), { reason: 'provider_error', message: /oh no/ })
  t.match(await refused(talk('go'), 'tts'), { reason: 'invalid_request' })
  t.match(await refused({ messages: [] }), { reason: 'invalid_request', message: /messages/ })
  t.match(await refused(talk('go', { temperature: -1 })), { message: /temperature is -1/ })
  t.equal((await ask(session, 'chat', talk('go'))).text, 'a b c', 'and it serves on')
  t.same(shared.deaths, [])
})

t.test('who lets go frees the slot', async (t) => {
  const closed = (word: string) => (): boolean =>
    journal().some((entry) => entry['closed'] === word && entry['whole'] === false)
  const abort = new AbortController()
  let heard = 0
  const slow = { kind: 'chat', payload: talk('slow', { n: 2 }) }
  for await (const { payload } of session.run(slow, abort.signal)) {
    if (textIn(payload) !== undefined && ++heard === 4) abort.abort()
  }
  t.equal(heard, 4, 'it ends without an error')
  await until('the server sees both connections close', () =>
    journal().filter((entry) => entry['closed'] === 'slow').length === 2)
  for await (const chunk of session.run({ kind: 'completion', payload: { prompt: 'flood' } }, never)) {
    if (textIn(chunk.payload) !== undefined) break
  }
  await until('also when the reader just goes', closed('flood'))
  t.same(await chunksOf(session, 'chat', talk('go'), AbortSignal.abort()), [])
})

t.test('a slow reader holds the server back', async (t) => {
  const stream = session.run({ kind: 'chat', payload: talk('flood') }, never)[Symbol.asyncIterator]()
  await stream.next()
  await until('something is written', () => journal().some((entry) => 'written' in entry))
  // If the reader pauses, the server stops writing when the connection's buffers are full.
  const written = (): number => journal().filter((entry) => 'written' in entry).length
  let before = -1
  await until('nothing more is written', () => {
    const same = before === written()
    before = written()
    return same
  })
  t.ok(before < 10, `${before} times a hundred pieces of 10 kB`)
  await stream.return?.(undefined)
})

t.test('an orderly end asks the server first', async (t) => {
  await session.close?.()
  t.notOk(lives(shared.pid))
  t.same(journal().at(-1), { asked: 'SIGTERM' })
  t.same(shared.deaths, [], 'and is no death')
})

t.test('a stream that comes byte by byte reads the same', async (t) => {
  const { session } = await rig(t, { cut: 1 })
  t.equal((await ask(session, 'chat', talk('unicode'))).text, 'ä€\u{1F600}\n\ndata: x')
  t.equal((await ask(session, 'completion', { prompt: 'unicode' })).text, 'ä€\u{1F600}\n\ndata: x')
})

t.test('a template without tools: they are told, and calls are read', async (t) => {
  const { session, bodies } = await rig(t, { props: { chat_template_caps: { supports_tools: false } } })
  const tool = { type: 'function', function: { name: 'add', parameters: { required: ['a'] } } }
  for (const choice of ['auto', 'required']) {
    const answer = await ask(session, 'chat', talk('tagged', { tools: [tool], tool_choice: choice }))
    const { calls } = structured(answer)
    t.match(calls, [{ id: /^\w{9}$/, name: 'add', input: '{"a": "x"}' }])
    t.match([answer.text, answer.done], ['', { finish_reason: 'tool_calls' }])
    const { messages } = bodies(choice === 'auto' ? '/v1/chat/completions' : '/apply-template').at(-1)!
    t.match(messages, [{ role: 'system', content: /"name":"add"/ }, { content: 'please tagged' }])
    if (choice === 'required') t.match(bodies('/completion').at(-1), { grammar: /<tool_call>/ })
  }
  const said = await ask(session, 'chat', talk('go', { tools: [tool] }))
  t.match([said.text, said.done], ['a b c', { finish_reason: 'stop' }], 'an offer')
  const must = ask(session, 'chat', talk('go', { tools: [tool], tool_choice: 'required' }))
  await t.rejects(must, { message: /made no tool call/ })
  const long = [{ ...tool, function: { ...tool.function, description: 'x'.repeat(3000) } }]
  const chunks = await chunksOf(session, 'chat', talk('go', { tools: long }))
  t.match(chunks[0]?.payload, { warnings: [/^tools: not offered/] }, 'they exceed the context')
  t.equal((await ask(session, 'chat', talk('go', { tools: long }))).text, 'a b c')
  const hopeless = ask(session, 'chat', talk('go'.repeat(2000), { tools: long }))
  await t.rejects(hopeless, { message: /^context_length_exceeded/ })
  const other = { type: 'function', function: { name: 'add', parameters: { required: ['b'] } } }
  const wrong = ask(session, 'chat', talk('tagged', { tools: [other] }))
  await t.rejects(wrong, { message: /must have required property 'b'/ })
})

t.test('an answer of a schema is checked', async (t) => {
  const { session } = await rig(t)
  const schema = { type: 'array', uniqueItems: true, minItems: 2 }
  const format = (strict: boolean) =>
    ({ response_format: { type: 'json_schema', json_schema: { schema, strict } } })
  await t.rejects(ask(session, 'chat', talk('go', format(true))), { message: /uniqueItems cannot be/ })
  const pieces: object[] = []
  const run = async (): Promise<void> => {
    const task = { kind: 'chat', payload: talk('go', format(false)) }
    for await (const { payload } of session.run(task, never)) pieces.push(payload)
  }
  await t.rejects(run(), { message: /the answer: is not JSON/ })
  const unenforced = 'not enforced: response_format.json_schema.schema/uniqueItems'
  t.match(pieces[0], { choices: [], warnings: [unenforced] })
})

t.test('an embedding model', async (t) => {
  const { session, bodies, journal } = await rig(t, {}, { tasks: ['embeddings'] })
  const args = journal()[0]?.['start'] as string[]
  t.match(args.join(' '), /--embeddings --batch-size 2048 --ubatch-size 2048$/)
  await session.warmup()
  const input = Array.from({ length: 33 }, (_, i) => i === 32 ? 'abc' : 'x')
  const chunks = await chunksOf(session, 'embed', { input })
  t.equal(chunks.length, 34)
  const numbers = (i: number): number[] => {
    const media = chunks[i]?.media ?? new Uint8Array()
    return [...new Float32Array(media.buffer, media.byteOffset, media.byteLength / 4)]
  }
  t.same(chunks[32]?.payload, { kind: 'embedding', index: 32, dimensions: 3 })
  t.same(numbers(32).map((x) => Math.round(x * 100)), [60, 80, 0], 'in the order of the texts, of length 1')
  t.same(chunks[33]?.payload,
    { kind: 'done', usage: { prompt_tokens: 35, completion_tokens: 0, cached_tokens: 0 } })
  const [raw] = await chunksOf(session, 'embed', { input: 'abc', normalize: false, dimensions: 2 })
  t.same([...new Float32Array(raw?.media?.slice().buffer ?? new ArrayBuffer(0))], [3, 4])
  t.match(bodies('/v1/embeddings').at(-1), { input: ['abc'], embd_normalize: -1 })
  await chunksOf(session, 'embed', { input: ['abcdefgh', 'ab', [1, 2, 3, 4, 5, 6]], truncate: 4 })
  const { input: cut } = bodies('/v1/embeddings').at(-1) as { input: [number[], string, number[]] }
  t.equal(cut[0].length, 4, 'token ids of the long text')
  t.same(cut.slice(1), ['ab', [1, 2, 3, 4]])
  t.same(bodies('/tokenize').map((body) => (body as { content: string }).content), ['', 'abcdefgh'],
    'a text that fits is not tokenized')
  await t.rejects(chunksOf(session, 'chat', talk('go')), { message: /serves embed/ })
})

t.test('a model that ranks documents', async (t) => {
  const { session, journal } = await rig(t, {}, { tasks: ['rerank'] })
  t.match((journal()[0]?.['start'] as string[]).join(' '), /--reranking --batch-size 2048 /)
  await session.warmup()
  const asked = { query: 'x', documents: ['ab', 'abcd'] }
  const [{ payload }] = await chunksOf(session, 'rerank', asked) as [{ payload: { scores: number[] } }]
  t.match(payload, { scores: [0.5, 1 / (1 + Math.exp(-2))], tokens: 7 }, 'logits as probabilities, in order')
  await t.rejects(chunksOf(session, 'chat', talk('go')), { message: /serves embed, rerank/ })
})
