import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Decoder } from '../embedded/decoder.js'
import { ChatTemplate } from '../text/template.js'
import { HELLO, load, loadTiny, ODD_BIAS, ODD_ENDS, tinyCard, whole } from './embedded-kit.js'
import { rankingModel, tinyModel } from './gguf-kit.js'
import type { Loaded, Whole } from './embedded-kit.js'
import type { EngineEnv } from '../../../kernel/api/engine.js'

/** Logit biases for the bytes " and }, which make JSON strings and objects end early. */
const ENDING = { 34: 6, 125: 8 }
const LOOK = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } }
/** A chat template that renders tools as JSON and tool calls in the Hermes format. */
const TOOLS = '{% if tools %}<|im_start|>system\n{% for x in tools %}{{ x | tojson }}{% endfor %}' +
  '<|im_end|>\n{% endif %}' +
  '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}' +
  '{% if m.tool_calls %}{% for c in m.tool_calls %}' +
  '<tool_call>{"name": "{{ c.function.name }}", "arguments": ' +
  '{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}' +
  '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'

t.test('an answer in the chunks of OpenAI', async (t) => {
  const { ask, complete } = await loadTiny(t)
  const { chunks, text, finish, usage, promptTokens } = await ask({ temperature: 0, max_tokens: 8 })
  t.equal(text.length, 8)
  t.equal(finish, 'length')
  // The prompt <|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n has a token per byte or marker.
  t.equal(promptTokens, 24)
  t.match(usage, { prompt_tokens: 24, completion_tokens: 8, prompt_tokens_details: { cached_tokens: 0 } })
  t.same(chunks[1], { choices: [{ index: 0, delta: { content: text[0] } }] })
  t.match(chunks.at(-1), {
    choices: [{ index: 0, delta: {}, finish_reason: 'length', stop_text: null }],
    timings: { prompt_per_second: Number, predicted_per_second: Number, peak_memory_bytes: Number }
  })
  const completed = await complete({ temperature: 0, max_tokens: 4 })
  t.match(completed.chunks[1], { choices: [{ index: 0, text: completed.text[0] }] })
  t.match(completed.chunks.at(-1), { choices: [{ text: '', finish_reason: 'length' }] })
})

t.test('the same text each time at temperature 0, alone or beside others', async (t) => {
  const { ask, work } = await loadTiny(t)
  const first = await ask({ temperature: 0, max_tokens: 24 })
  const second = await ask({ temperature: 0, max_tokens: 24 })
  t.equal(second.text, first.text)
  t.equal(second.usage.prompt_tokens_details.cached_tokens, 23, 'all but the last token are kept')
  work.length = 0
  const all = await Promise.all(Array.from({ length: 6 },
    async () => await ask({ temperature: 0, max_tokens: 24 })))
  for (const { text } of all) t.equal(text, first.text)
  t.ok(work.length < 40, 'they share steps')
})

t.test('a stop text, split over tokens, ends an answer and is not part of it', async (t) => {
  const { ask } = await loadTiny(t)
  const { text } = await ask({ temperature: 0, max_tokens: 16 })
  const stop = text.slice(5, 8)
  const at = text.indexOf(stop)
  const stopped = await ask({ temperature: 0, max_tokens: 16, stop: ['#', stop] })
  t.equal(stopped.text, text.slice(0, at))
  t.equal(stopped.finish, 'stop')
  t.equal(stopped.chunks.at(-1)?.choices[0]?.stop_text, stop)
})

t.test('sampling: seeds, the model\'s defaults, bias and penalties', async (t) => {
  const { ask, chunks } = await loadTiny(t, { card: { defaults: { temperature: 0 } } })
  const greedy = await ask({ max_tokens: 12 })
  const cold = await ask({ max_tokens: 12, temperature: 0 })
  t.equal(cold.text, greedy.text, 'the default of the model counts')
  const free = { max_tokens: 12, temperature: 1.5, top_k: 0, top_p: 1, min_p: 0 }
  const seeded = await ask({ ...free, seed: 5 })
  t.equal((await ask({ ...free, seed: 5 })).text, seeded.text)
  t.not((await ask({ ...free, seed: 6 })).text, seeded.text)
  t.equal((await ask({ max_tokens: 6, logit_bias: { 122: 100 } })).text, 'zzzzzz')
  const unlike = await ask(
    { max_tokens: 12, frequency_penalty: 2, repetition_penalty: 100, repeat_last_n: -1 })
  t.equal(new Set(unlike.text).size, 12, 'no letter comes twice')
  const answers = await chunks('chat', { messages: HELLO, ...free, seed: 5, n: 3 })
  const texts = [0, 1, 2].map((index) => whole(answers, index).text)
  t.equal(texts[0], seeded.text)
  t.equal(new Set(texts).size, 3)
  t.equal(answers.filter(({ choices }) => choices.length === 0).length, 1, 'the prompt is admitted once')
})

t.test('log probabilities are the model\'s own', async (t) => {
  const { ask } = await loadTiny(t)
  const { text, logprobs } = await ask({ temperature: 0, max_tokens: 4, logprobs: true, top_logprobs: 3 })
  t.equal(logprobs.map(({ token }) => token).join(''), text)
  for (const { token, bytes, logprob, top_logprobs: tops } of logprobs) {
    t.same(bytes, [...Buffer.from(token)])
    t.equal(tops.length, 3)
    t.same(tops[0], { token, bytes, logprob }, 'the likeliest was chosen')
    t.ok(tops[1]!.logprob <= logprob && tops[2]!.logprob <= tops[1]!.logprob)
  }
  // Force an unlikely token, which is not among the candidates fetched first.
  const unlikely = await ask({
    temperature: 0, max_tokens: 1, logprobs: true, top_logprobs: 3, logit_bias: { 200: 100 }
  })
  const [first, forced] = [logprobs[0]!, unlikely.logprobs[0]!]
  t.ok(forced.logprob < first.top_logprobs[2]!.logprob && forced.logprob > -20)
  for (const [i, { token, logprob }] of forced.top_logprobs.entries()) {
    t.equal(token, first.top_logprobs[i]!.token)
    t.ok(Math.abs(logprob - first.top_logprobs[i]!.logprob) < 1e-3, 'both ways give the same probability')
  }
})

t.test('JSON, and calls of tools', async (t) => {
  const { ask, refusal } = await loadTiny(t, { file: tinyModel({ template: TOOLS }) })
  const json = await ask({ response_format: { type: 'json_object' }, seed: 1, logit_bias: ENDING })
  t.equal(json.finish, 'stop')
  t.type(JSON.parse(json.text), 'object')
  const called = await ask({ tools: [LOOK], tool_choice: 'required', seed: 1, logit_bias: ENDING })
  t.equal(called.finish, 'tool_calls')
  t.equal(called.calls[0]?.name, 'look')
  t.type(JSON.parse(called.calls[0]!.arguments), 'object')
  t.equal(called.text, '')
  const named = { type: 'function', function: { name: 'see' } }
  const see = { ...LOOK, function: { ...LOOK.function, name: 'see' } }
  const one = await ask({
    tools: [LOOK, see], tool_choice: named, parallel_tool_calls: false, seed: 2, logit_bias: ENDING
  })
  t.same(one.calls.map(({ name }) => name), ['see'])
  const either = await ask({
    tools: [LOOK], response_format: { type: 'json_object' }, seed: 1, logit_bias: ENDING
  })
  t.type(JSON.parse(either.text || either.calls[0]!.arguments), 'object')
  const warnings = ({ chunks }: Whole): unknown => chunks.flatMap((chunk) => chunk['warnings'] ?? [])
  t.same(warnings(json), [], 'a JSON object is enforced')
  t.same(warnings(called), [], 'and the parameters of tools')
  const held = (strict: boolean): object => ({
    type: 'json_schema',
    json_schema: { name: 'x', strict, schema: {
      type: 'object', required: ['a'], propertyNames: { maxLength: 9 }, additionalProperties: { enum: [7] }
    } }
  })
  const loose = await ask({ response_format: held(false), seed: 1, logit_bias: ENDING })
  t.same(warnings(loose), ['not enforced: response_format.json_schema.schema/propertyNames'])
  t.same(JSON.parse(loose.text), { a: 7 })
  const strict = refusal('chat', { messages: HELLO, response_format: held(true) })
  t.match(await strict, { reason: 'invalid_request', message: /propertyNames/ })
  const odd = { type: 'json_schema', json_schema: { schema: { enum: [[1, 1]], uniqueItems: true } } }
  await t.rejects(ask({ response_format: odd }), { reason: 'invalid_result', message: /uniqueItems/ })
})

t.test('a template without tools is told of them in the system message', async (t) => {
  const { ask, chunks } = await loadTiny(t)
  const called = await ask({ tools: [LOOK], tool_choice: 'required', seed: 1, logit_bias: ENDING })
  t.equal(called.calls[0]?.name, 'look')
  const messages = [...HELLO,
    {
      role: 'assistant', content: null,
      tool_calls: [{ id: 'x', function: { name: 'look', arguments: '{"a":1}' } }]
    },
    { role: 'tool', tool_call_id: 'x', content: 'seen' }]
  const [read] = await chunks('tokenize', { messages, tools: [LOOK] })
  const [{ text } = { text: '' }] = await chunks('detokenize', { tokens: read?.tokens })
  t.match(text, /^<\|im_start\|>system\nYou may call.*"name":"look"/s)
  t.match(text, /assistant\n<tool_call>\n\{"name": "look", "arguments": \{"a":1\}\}/)
  t.match(text, /<tool_response>\nseen\n<\/tool_response>/)
})

t.test('offered tools that do not fit into the context are left out, with a warning', async (t) => {
  const { ask, refusal } = await loadTiny(t)
  const long = { ...LOOK, function: { ...LOOK.function, description: 'x'.repeat(600) } }
  const plain = await ask({ seed: 1, temperature: 0, max_tokens: 4 })
  const offered = await ask({ tools: [long], seed: 1, temperature: 0, max_tokens: 4 })
  t.equal(offered.text, plain.text)
  t.match(offered.chunks[0]?.['warnings'], [/^tools: not offered/])
  t.match(await refusal('chat', { messages: HELLO, tools: [long], tool_choice: 'required' }),
    { reason: 'context_length_exceeded' }, 'a call that is required needs them')
})

t.test('odd biases and ends, as the server has them', async (t) => {
  const { ask, chunks, refusal } = await loadTiny(t)
  const biased = await ask({ max_tokens: 3, logit_bias: { 122: 100, 99999: 100 } })
  t.equal(biased.text, 'zzz', 'one is not in the vocabulary')
  for (const bias of ODD_BIAS) {
    t.match(await refusal('chat', { messages: HELLO, logit_bias: bias }),
      { reason: 'invalid_request', details: { issues: [{ path: 'logit_bias' }] } }, JSON.stringify(bias))
  }
  for (const end of ODD_ENDS) {
    t.match(await refusal('chat', { messages: [...HELLO, ...end] }),
      { reason: 'invalid_request', details: { issues: [{ path: 'messages' }] } }, JSON.stringify(end))
  }
  const promptOf = async (payload: object, { chunks }: Pick<Loaded, 'chunks'>): Promise<string> => {
    const [read] = await chunks('tokenize', payload)
    return (await chunks('detokenize', { tokens: read?.tokens }))[0]!.text
  }
  const begun = (more: object): object => ({ messages: [...HELLO, { role: 'assistant', ...more }] })
  const goesOn = /<\|im_start\|>assistant\nSo$/
  t.match(await promptOf(begun({ content: 'So' }), { chunks }), goesOn, 'an answer that is begun')
  const template = '{% for m in messages %}{{ m.content }}|{% endfor %}>' +
    '{% if add_generation_prompt %}<think>{% endif %}'
  const thinking = await loadTiny(t, { file: tinyModel({ template }) })
  t.equal(await promptOf(begun({ content: 'So' }), thinking), 'hello|><think></think>So')
  t.equal(await promptOf(begun({ content: 'So', reasoning_content: 'Hm' }), thinking),
    'hello|><think>Hm</think>So')
  t.equal(await promptOf(begun({ content: '', reasoning_content: 'Hm' }), thinking), 'hello|><think>Hm')
  const more = { max_tokens: 3, logit_bias: { 122: 100 } }
  const answered = await thinking.ask({ ...begun({ content: 'So' }), ...more })
  t.match(answered, { text: 'zzz', reasoning: '' }, 'and is over its reasoning')
})

t.test('templates: the given one, that beside the file, its own, ChatML', async (t) => {
  const promptOf = async ({ chunks }: Loaded): Promise<string> => {
    const [read] = await chunks('tokenize', { messages: HELLO })
    return (await chunks('detokenize', { tokens: read?.tokens }))[0]!.text
  }
  const given = (source: string): object => ({ options: { chatTemplate: { source } } })
  const file = tinyModel({ template: 'own: {{ messages[0].content }}' })
  t.match(await promptOf(await loadTiny(t)), '<|im_start|>user\nhello<|im_end|>')
  t.match(await promptOf(await loadTiny(t, { file })), 'own: hello')
  const directory = t.testdir({ 'chat_template.jinja': 'beside: {{ messages[0].content }}' })
  writeFileSync(join(directory, 'tiny.gguf'), file)
  const files = [...tinyCard().files, { path: 'chat_template.jinja', role: 'template', bytes: 1 }]
  const spec = { card: tinyCard({ files }), directory }
  t.match(await promptOf(await load(t, spec)), 'beside: hello')
  t.match(await promptOf(await load(t, { ...spec, ...given('given: {{ messages[0].content }}') })),
    'given: hello')
  for (const broken of ['{% for %}', '{{ raise_exception("no") }}', '{{']) {
    const refused = { reason: 'chat_template_unreadable', message: /^the model's chat template/ }
    await t.rejects(load(t, { ...spec, ...given(broken) }), refused, broken)
    await t.rejects(loadTiny(t, { file: tinyModel({ template: broken }) }), refused, `its own: ${broken}`)
  }
})

t.test('a template that fails at a tool, or without tools, gets an empty list', async (t) => {
  const template = TOOLS.replace('{% if tools %}', '').replace('{% endfor %}<|im_end|>\n{% endif %}',
    '{{ x.function.parameters.kind.type | upper }}{% endfor %}')
  const { chunks } = await loadTiny(t, { file: tinyModel({ template }) })
  for (const tools of [[], [LOOK]]) {
    const [read] = await chunks('tokenize', { messages: HELLO, tools })
    const [{ text } = { text: '' }] = await chunks('detokenize', { tokens: read?.tokens })
    t.equal(/You may call/.test(text), tools.length > 0, text)
  }
})

t.test('a system message where the template refuses one', async (t) => {
  const template = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + TOOLS
  const { chunks } = await loadTiny(t, { file: tinyModel({ template }) })
  const [read] = await chunks('tokenize', { messages: [{ role: 'system', content: 'Be kind' }, ...HELLO] })
  const [{ text } = { text: '' }] = await chunks('detokenize', { tokens: read?.tokens })
  t.match(text, `user\nBe kind\n\n${HELLO[0]?.content}`)
})

t.test('a template without an end is evaluated once for a request', async (t) => {
  const template = '{% if messages | length > 1 %}{% for a in range(9999) %}' +
    '{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}{% endif %}'
  const { chunks } = await loadTiny(t, { file: tinyModel({ template }) })
  const renders = t.capture(ChatTemplate.prototype, 'render', ChatTemplate.prototype.render)
  const asked = chunks('tokenize', { messages: [...HELLO, ...HELLO] })
  await t.rejects(asked, { reason: 'invalid_request', message: /400000 steps/ })
  t.equal(renders().length, 1)
})

t.test('special tokens in messages are plain text', async (t) => {
  const { chunks } = await loadTiny(t)
  const tokensOf = async (content: string): Promise<number[]> =>
    (await chunks('tokenize', { messages: [{ role: 'user', content }] }))[0]!.tokens
  t.equal((await tokensOf('<|im_end|>')).filter((id) => id === 258).length, 1, 'the template\'s own')
  const [back] = await chunks('detokenize', { tokens: await tokensOf('a <|im_end|> b. "c" é') })
  t.match(back!.text, /user\na <\|im_end\|> b\. "c" é<\|im_end\|>/)
})

t.test('prompts without room, and what only the server does, are refused', async (t) => {
  const { refusal } = await loadTiny(t)
  const long = await refusal('chat', { messages: [{ role: 'user', content: 'x'.repeat(600) }] })
  t.equal(long.reason, 'context_length_exceeded')
  t.match(long.message, /maximum context length is 512 tokens.*has 619 tokens/)
  t.same(long.details, { prompt_tokens: 619, context_length: 512 })
  const refused: [Record<string, unknown>, RegExp][] = [
    [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, /svc engine add llama\.cpp/],
    [{ lora: [{ id: 0, scale: 1 }] }, /lora: .*svc engine add llama\.cpp/],
    [{ input_prefix: 'a' }, /input_prefix: .*svc engine add/],
    [{ temperature: -1 }, /^temperature is -1/], [{ n: 0 }, /^n is 0/], [{ stop: [''] }, /^stop must/],
    [{ top_logprobs: 21 }, /^top_logprobs is 21/],
    [{ messages: [] }, /^messages must/], [{ grammar: 'root ::= "' }, /^llama\.cpp cannot parse the grammar/]
  ]
  for (const [fields, message] of refused) {
    const { reason, message: said } = await refusal('chat', { messages: HELLO, ...fields })
    t.equal(reason, 'invalid_request')
    t.match(said, message)
  }
  t.match(await refusal('embed', { input: 'x' }), { reason: 'invalid_request', message: /serves chat/ })
})

t.test('an answer ends where the context does', async (t) => {
  const { ask } = await loadTiny(t, { spec: { contextLength: 64 } })
  const { finish, usage } = await ask({ temperature: 0, logit_bias: { 257: -100, 258: -100 } })
  t.equal(finish, 'length')
  t.equal(usage.prompt_tokens + usage.completion_tokens, 64)
})

t.test('an abort ends the work after the step in hand', async (t) => {
  const abort = new AbortController()
  const { chunks, work, ask } = await loadTiny(t, {
    onWork: () => { if (work.length === 3) abort.abort() }
  })
  t.same(await chunks('chat', { messages: [{ role: 'user', content: 'x'.repeat(450) }] }, abort.signal), [
    { choices: [], usage: { prompt_tokens: 469 } }])
  await ask({ max_tokens: 1 })
  t.ok(work.every(({ units }) => units <= 128))
  t.equal(work.length, 4, 'three steps of the aborted one, and one of the next')
})

t.test('steps follow the speed of the model', async (t) => {
  for (const [msPerToken, steps] of [[1, [32, 64, 128, 128]], [20, [32, 16, 8, 8]]] as const) {
    let now = 0
    const sizes: number[] = []
    const context = {
      initBatch: (size: number) => { sizes.push(size) },
      addToBatch: (_: number, at: number, ids: Uint32Array, out: Uint32Array) =>
        out.map(() => at + ids.length),
      decodeBatch: async () => { now += sizes.at(-1)! * msPerToken },
      dispose: async () => {}
    }
    const env: Pick<EngineEnv, 'work'> = { work: async (_, __, call) => await call() }
    const decoder = new Decoder(context as never, { slots: 1, window: 0 }, env, () => now)
    await new Promise<void>((resolve, reject) => {
      decoder.submit({
        prompt: Array.from({ length: 500 }, (_, id) => id), isCancelled: false, started: () => {},
        failed: reject,
        next: async () => {
          resolve()
          return null
        }
      })
    })
    await decoder.close()
    t.same(sizes.slice(0, 4), steps)
  }
})

t.test('a closed model ends its answers', async (t) => {
  const { session, ask } = await loadTiny(t, { spec: { options: { max_batch: 2 } } })
  const three = [1, 2, 3].map(async () => await ask({ max_tokens: 400 }).catch((error: unknown) => error))
  await new Promise((resolve) => { setImmediate(() => { setImmediate(resolve) }) })
  await session.close!()
  for (const end of await Promise.all(three)) t.match(end, { reason: 'cancelled' })
})

t.test('reasoning comes apart, and a grammar holds behind it', async (t) => {
  const template = '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n' +
    '{% endfor %}<|im_start|>assistant\n<think>'
  const { ask } = await loadTiny(t, { file: tinyModel({ template, special: ['<think>', '</think>'] }) })
  // Token 262 is </think>; its bias is higher than the biases of the quote and the brace.
  const bias = { ...ENDING, 262: 9 }
  const { text, reasoning } = await ask(
    { response_format: { type: 'json_object' }, seed: 4, logit_bias: bias })
  t.notMatch(reasoning, /think/)
  t.type(JSON.parse(text), 'object')
})

t.test('embeddings', async (t) => {
  const file = tinyModel({ metadata: { 'llama.pooling_type': 1 } })
  const { session, chunks, refusal } = await loadTiny(t, { file, card: { tasks: ['embeddings'] } })
  const vectors: Float32Array[] = []
  const task = { kind: 'embed', payload: { input: ['one', 'two', 'one'] } }
  for await (const { payload, media } of session.run(task, new AbortController().signal)) {
    if (media !== undefined) vectors.push(new Float32Array(media.slice().buffer))
    else t.match(payload, { kind: 'done', usage: { prompt_tokens: 9 } })
  }
  t.same(vectors[0], vectors[2])
  t.notSame(vectors[0], vectors[1])
  t.ok(Math.abs(vectors[0]!.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5)
  t.same(await chunks('tokenize', { prompt: 'hi' }),
    [{ kind: 'tokens', tokens: [104, 105], count: 2, context_length: 512 }])
  t.match(await refusal('embed', { input: 'x'.repeat(600) }), { reason: 'context_length_exceeded' })
  const cut = await chunks('embed', { input: 'x'.repeat(600), truncate: 9 })
  t.match(cut.at(-1), { usage: { prompt_tokens: 9 } })
  const all = await chunks('embed', { input: 'x'.repeat(600), truncate: -1 })
  t.match(all.at(-1), { usage: { prompt_tokens: 512 } })
})

t.test('a model that ranks documents', async (t) => {
  const card = { tasks: ['rerank'], family: 'qwen3' }
  const documents = ['a cat sat', 'on a mat', 'a cat sat']
  const scoresOf = async ({ chunks }: Loaded): Promise<number[]> =>
    (await chunks('rerank', { query: 'where', documents }))[0]!['scores'] as number[]
  const ranker = await loadTiny(t, { file: rankingModel(), card })
  await ranker.session.warmup()
  const [first, second, third] = await scoresOf(ranker)
  t.equal(first, third, 'the same each time')
  t.not(first, second)
  t.ok([first!, second!].every((score) => score > 0 && score < 1), `${first} ${second}`)
  const counted = async ({ chunks }: Loaded): Promise<unknown> =>
    (await chunks('rerank', { query: 'where', documents: ['a cat'] }))[0]!.tokens
  t.equal(await counted(ranker), 10)
  const templated = rankingModel({ 'tokenizer.chat_template.rerank': 'q: {query} d: {document}' })
  t.equal(await counted(await loadTiny(t, { file: templated, card })), 17)
  // This family's last layer returns logits, which must become scores between 0 and 1.
  const logits = tinyModel({ metadata: { 'llama.pooling_type': 4 } })
  t.ok((await scoresOf(await loadTiny(t, { file: logits, card: { tasks: ['rerank'] } })))
    .every((score) => score > 0 && score < 1))
  t.match(await ranker.refusal('rerank', { query: 'x', documents: ['y'.repeat(600)] }),
    { message: /^context_length_exceeded.* has 601 tokens/ })
})
