import t from 'tap'
import { chatReader } from '../../runners/openai/answer.js'
import { completionReader } from '../server/session.js'
import { readHelp } from '../server/binary.js'
import { draftMethodOf, serverArguments, sizesOf } from '../server/command-line.js'
import { serverError } from '../server/errors.js'
import { modelFile } from '../server/index.js'
import { merged } from '../../runners/language/merged.js'
import { LineCutter, Output } from '../../runners/openai/program.js'
import { readEmbed } from '../../runners/language/vectors.js'
import { chatBodies, completionBodies, isConstrained, promptOf, readsTools } from '../server/request.js'
import { ODD_BIAS, ODD_ENDS } from './embedded-kit.js'
import { cardOf, specOf } from './llama-kit.js'

const facts = { contextLength: 100, defaults: {} }
const messages = [{ role: 'user', content: 'hi' }]

function thrown (call: () => unknown): unknown {
  try {
    call()
  } catch (error) {
    return error
  }
  return undefined
}

t.test('the command line', (t) => {
  const sizes = { contextLength: 64, slots: 2, promptCacheMib: 8 }
  const base = {
    flags: new Set<string>(), model: '/m.gguf', keyFile: 'k', threads: 2, backend: 'cpu', sizes,
    embeds: false, address: { host: '127.0.0.1', port: 9 }
  }
  t.same(serverArguments(base), ['--model', '/m.gguf', '--host', '127.0.0.1', '--port', '9', '--api-key-file',
    'k', '--threads', '2', '--ctx-size', '128', '--parallel', '2'])
  const flags = new Set(['--no-webui', '--n-gpu-layers', '--device', '--embeddings', '--ubatch-size'])
  const more = (backend: string, embeds: boolean): string =>
    serverArguments({ ...base, flags, backend, embeds }).slice(14).join(' ')
  t.equal(more('cpu', false), '--no-webui --n-gpu-layers 0 --device none')
  t.equal(more('cuda', true), '--no-webui --n-gpu-layers 999 --embeddings --ubatch-size 64')
  const beside = (way: string | null, backend: string, ...more: string[]): string => serverArguments({
    ...base, backend, flags: new Set(['--mmproj', '--model-draft', ...more]), mmproj: '/v',
    drafter: { path: '/d', way }
  }).slice(14).join(' ')
  const templated = { ...base, flags: new Set(['--chat-template-file']), template: 'given.jinja' }
  t.same(serverArguments(templated).slice(14), ['--chat-template-file', 'given.jinja'])
  t.equal(beside('draft-simple', 'cpu'), '--mmproj /v --model-draft /d', 'an old server')
  const newer = ['--spec-type', 'draft-simple', '--no-mmproj-offload', '--device-draft']
  t.equal(beside('draft-simple', 'cuda', ...newer), '--mmproj /v --model-draft /d --spec-type draft-simple')
  t.equal(beside('draft-simple', 'cpu', ...newer),
    '--mmproj /v --model-draft /d --spec-type draft-simple --no-mmproj-offload --device-draft none')
  t.equal(beside('draft-eagle3', 'cuda', ...newer), '--mmproj /v --model-draft /d', 'a way it does not know')
  t.equal(beside(null, 'cuda', ...newer), '--mmproj /v --model-draft /d', 'found out by the server')
  const way = (architecture: string, ...names: string[]): string | null => draftMethodOf({
    metadata: new Map([['general.architecture', architecture]]),
    tensors: names.map((name) => ({ name, shape: [], type: 'fp32', bytes: 0 }))
  })
  t.same([way('llama'), way('eagle3'), way('dflash'), way('glm4moe', 'blk.46.nextn.eh_proj.weight')],
    ['draft-simple', 'draft-eagle3', null, null])
  const help = '-m,    --model FNAME  x\n--no-ui, --host HOST  bind to a UNIX socket none,draft-simple'
  const { flags: read, sockets } = readHelp(help)
  t.same([...read], ['--model', '--no-ui', '--host', 'draft-simple'])
  t.ok(sockets)
  t.notOk(readHelp('--host HOST ip address to listen').sockets)
  t.end()
})

t.test('sizes', (t) => {
  const shape = { nLayers: 32, kvHeads: 8, headSize: 128, contextLength: 131_072, valueBytes: 2 }
  const sizes = (card: object, options: object = {}, contextLength?: number, embeds = false) =>
    sizesOf({
      ...specOf('/', '/bin', { ...shape, ...card }, { ...options }),
      ...contextLength === undefined ? {} : { contextLength }
    }, embeds)
  t.match(sizes({}), { contextLength: 8192, slots: 1, promptCacheMib: 64 }, 'a usual model')
  t.match(sizes({}, {}, 65_536), { contextLength: 65_536, slots: 1 }, 'as it was placed')
  t.match(sizes({}, {}, 1024), { contextLength: 1024, slots: 4 }, 'several short ones')
  t.match(sizes({ contextLength: 2048 }), { contextLength: 2048, slots: 2 })
  t.match(sizes({ nLayers: 1, kvHeads: 1, headSize: 8 }), { contextLength: 8192, slots: 16 }, 'small')
  t.match(sizes({ kvHeads: 0, contextLength: 512 }, {}, undefined, true), { contextLength: 512, slots: 16 })
  t.match(sizes({ kvHeads: 0 }, {}, 16_384, true), { contextLength: 8192 }, 'embeddings')
  const options = { max_batch: 2, prefix_cache_bytes: 0 }
  t.same(sizes({}, options, 1000),
    { contextLength: 1000, slots: 2, promptCacheMib: 0, cacheType: undefined })
  t.match(sizes({}, { max_batch: 9 }, 1024), { slots: 4 }, 'no more than there is memory for')
  const wrong = [{ max_batch: 0 }, { prefix_cache_bytes: NaN }]
  for (const option of wrong) {
    t.match(thrown(() => sizes({}, option)), { reason: 'model_invalid' }, JSON.stringify(option))
  }
  t.end()
})

t.test('the file of a model', (t) => {
  const file = (...files: [string, string][]): string =>
    modelFile(cardOf({ files: files.map(([path, role]) => ({ path, role, bytes: 1 })) }))
  const [second, first]: [[string, string], [string, string]] = [['b-00002-of-00002.gguf', 'weights'],
    ['b-00001-of-00002.gguf', 'weights']]
  t.equal(file(['a.json', 'config'], second, first), 'b-00001-of-00002.gguf')
  t.equal(file(['a-mmproj.gguf', 'other'], ['m.GGUF', 'weights']), 'm.GGUF')
  t.equal(file(['m.gguf', 'other']), 'm.gguf')
  t.match(thrown(() => file(['m.onnx', 'weights'])), { reason: 'model_invalid' })
  t.end()
})

t.test('bodies of chats: only what the client or the card has set', (t) => {
  const body = (payload: object, more: object = {}): Record<string, unknown> =>
    chatBodies({ messages, ...payload }, { ...facts, ...more }).bodies[0] ?? {}
  const always = {
    messages, max_tokens: 99, cache_prompt: true, stream: true, return_progress: true,
    stream_options: { include_usage: true }
  }
  t.same(body({}), always, 'the server has defaults of its own')
  const windows: [number, number][] = [[-1, facts.contextLength], [0, 0], [7, 7], [1e9, facts.contextLength]]
  for (const [given, sent] of windows) {
    t.equal(body({ repeat_last_n: given })['repeat_last_n'], sent, `a window of ${given}`)
  }
  t.match(body({ temperature: 0, top_k: 3 }), { temperature: 0, top_k: 1 }, 'the best alone')
  const params = {
    temperature: 0.1, top_p: 0.5, top_k: 3, min_p: 0.1, frequency_penalty: 1, presence_penalty: -1
  }
  t.same(body({
    ...params, repetition_penalty: 1.2, seed: 2 ** 40, logit_bias: { 5: -100 }, logprobs: true,
    max_tokens: 1e6, stop: ['x'], mirostat: 2, grammar: 'root ::= "a"'
  }), {
    ...always, ...params, repeat_penalty: 1.2, seed: 256, logit_bias: [[5, -100]], logprobs: true,
    top_logprobs: 1, stop: ['x'], mirostat: 2, grammar: 'root ::= "a"'
  })
  t.match(body({ logit_bias: { 5: 1, [2 ** 32 + 5]: 9 } }), { logit_bias: [[5, 1]] },
    'the server would cut it to 5')
  t.notOk('logit_bias' in body({ logit_bias: { [2 ** 31]: 9 } }))
  for (const bias of ODD_BIAS) {
    t.match(thrown(() => body({ logit_bias: bias })),
      { reason: 'invalid_request', details: { issues: [{ path: 'logit_bias' }] } }, JSON.stringify(bias))
  }
  for (const end of ODD_ENDS) {
    t.match(thrown(() => body({ messages: [...messages, ...end] })),
      { reason: 'invalid_request', details: { issues: [{ path: 'messages' }] } }, JSON.stringify(end))
  }
  const begun = [...messages, { role: 'assistant', content: 'So' }]
  t.same(body({ messages: begun })['messages'], begun, 'the server goes on from it')
  const defaults = { temperature: 0.6, repeat_last_n: 9, voice: 'x' }
  t.same(body({}, { defaults }), { ...always, temperature: 0.6, repeat_last_n: 9 }, 'the card has defaults')
  t.match(body({ temperature: 1 }, { defaults }), { temperature: 1 })
  const response_format = { type: 'json_schema', json_schema: { schema: { type: 'string' } } }
  t.same(body({ response_format }), { ...always, response_format })
  t.match(body({ chat_template_kwargs: { enable_thinking: false }, add_generation_prompt: false }),
    { chat_template_kwargs: { enable_thinking: false }, add_generation_prompt: false })
  t.match(body({ messages: [{ role: 'assistant', tool_calls: [1] }, { role: 'tool', content: 'x' }] }),
    { messages: [{ content: '', tool_calls: [1] }, {}] })
  t.equal(body({ n_predict: 5 })['max_tokens'], 5)
  t.match(thrown(() => body({ n_predict: 100 })), { details: { issues: [{ path: 'n_predict' }] } }, 'the cap')
  t.match(body({ stream: false, return_progress: false }), { stream: true, return_progress: true })
  t.end()
})

t.test('tools are an offer, unless a call is required', (t) => {
  const tools = ['a', 'b'].map((name) => ({ type: 'function', function: { name } }))
  const named = { type: 'function', function: { name: 'b' } }
  const body = (payload: object, more: object = {}): Record<string, unknown> =>
    chatBodies({ messages, tools, ...payload }, { ...facts, ...more }).bodies[0] ?? {}
  t.match(body({}), { tools, tool_choice: 'auto' })
  t.match(body({ tool_choice: 'auto', parallel_tool_calls: false }), { tools, parallel_tool_calls: false })
  t.match(body({ tool_choice: 'required' }), { tools, tool_choice: 'required' })
  t.match(body({ tool_choice: named }), { tools: tools.slice(1), tool_choice: 'required' })
  t.notMatch(Object.keys(body({ tool_choice: 'none' })).join(), /tool/)
  for (const tool_choice of ['auto', 'required', named]) {
    const sent = body({ tool_choice }, { tools: false })
    t.match(sent['messages'], [{ role: 'system', content: /You may call these functions/ }, { role: 'user' }])
    t.notMatch(Object.keys(sent).join(), /tool/)
  }
  const response_format = { type: 'json_object' }
  const image = [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }]
  const grammar = 'root ::= "a"'
  for (const given of [{ tools, tool_choice: 'required' }, { response_format }, { grammar }]) {
    t.ok(isConstrained({ messages, ...given }))
    t.notOk(isConstrained({ messages: image, ...given }), 'the server reads images in its own chats only')
  }
  t.notOk(isConstrained({ messages, tools }))
  t.ok(readsTools({}))
  t.ok(readsTools({ chat_template: '{% if tools %}' }))
  t.notOk(readsTools({ chat_template: '{{ messages }}' }))
  t.notOk(readsTools({ chat_template: '{% if tools %}', chat_template_caps: { supports_tools: false } }))
  t.end()
})

t.test('ids of calls where the template takes short ones only', (t) => {
  const ids = (callIds: 'any' | 'short', id: string): unknown => {
    const asked = [
      { role: 'assistant', tool_calls: [{ id, type: 'function' }] }, { role: 'tool', tool_call_id: id }
    ]
    const { bodies: [body] } = chatBodies({ messages: asked }, { ...facts, callIds })
    const [call, result] = body?.['messages'] as [{ tool_calls: { id: string }[] }, { tool_call_id: string }]
    t.match(call, { tool_calls: [{ type: 'function' }] })
    t.equal(call.tool_calls[0]?.id, result.tool_call_id, 'they still belong together')
    return result.tool_call_id
  }
  t.equal(ids('any', 'call_1'), 'call_1')
  t.equal(ids('short', 'abcABC123'), 'abcABC123')
  t.match(ids('short', 'call_1'), /^[a-z0-9]{9}$/)
  t.not(ids('short', 'call_1'), ids('short', 'call_2'))
  t.end()
})

t.test('bodies of completions and embeddings', (t) => {
  const body = (payload: object): Record<string, unknown> =>
    completionBodies({ prompt: 'p', ...payload }, facts).bodies[0] ?? {}
  t.match(body({ json_schema: { type: 'object' }, typical_p: 0.5 }),
    { grammar: /^root ::= /, typical_p: 0.5 })
  t.match(body({ logprobs: true, top_logprobs: 3, max_tokens: 4 }), { n_probs: 3, n_predict: 4 })
  t.equal(completionBodies({ prompt: [1, 2], n: 3 }, facts).bodies.length, 3)
  for (const payload of [
    { prompt: '' }, { prompt: [] }, { prompt: [-1] }, { prompt: [1.5] }, { prompt: null }, { prompt: ['a'] },
    { n: 0 }, { n: 1.5 }, { max_tokens: 0 }, { seed: 'x' }, { top_k: 0.5 }, { temperature: -1 }
  ]) t.match(thrown(() => body(payload)), { reason: 'invalid_request' }, JSON.stringify(payload))
  for (const wrong of ['x', [{ role: 'user', content: [1] }], [null], [{ content: 'x' }]]) {
    const call = () => chatBodies({ messages: wrong }, facts)
    t.match(thrown(call), { reason: 'invalid_request' }, JSON.stringify(wrong))
  }
  t.same(readEmbed({ input: [1, 2] }).inputs, [[1, 2]])
  t.same(readEmbed({ input: ['a', [3]] }).inputs, ['a', [3]])
  for (const payload of [{ input: [] }, { input: 'a', dimensions: 0 }]) {
    t.match(thrown(() => readEmbed(payload)), { reason: 'invalid_request' }, JSON.stringify(payload))
  }
  t.match(thrown(() => promptOf({})), { details: { issues: [{ path: 'prompt' }] } })
  t.end()
})

t.test('answers of other servers', (t) => {
  const reader = chatReader(2, 0)
  t.same(reader.read({ choices: [{ delta: { role: 'assistant', content: null } }] }), [])
  t.equal(reader.end(0), null, 'not complete')
  const usage = { prompt_tokens: 9, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 4 } }
  t.same(reader.read({ choices: [{ delta: { content: 'x' }, finish_reason: 'stop' }], usage }),
    [{ choices: [{ index: 2, delta: { content: 'x' } }] }])
  t.same(reader.end(5), {
    choices: [{ index: 2, delta: {}, finish_reason: 'stop', stop_text: null }], usage,
    timings: { prompt_per_second: null, predicted_per_second: null, peak_memory_bytes: 5 }
  })
  const cut = chatReader(0, 0)
  t.same(cut.read({ choices: [{ delta: { reasoning_content: 'so' }, finish_reason: 'length' }] }),
    [{ choices: [{ index: 0, delta: { reasoning_content: 'so' } }] }])
  t.match(cut.end(0), { choices: [{ finish_reason: 'length' }] })
  const called = chatReader(0, 0)
  const call = (fn: object, id?: string): object => ({ tool_calls: [{ index: 1, id, function: fn }] })
  t.same([call({ name: 'f', arguments: '{' }, 'c1'), call({ arguments: '}' })].flatMap((delta) =>
    called.read({ choices: [{ delta }] })).map(({ choices: [choice] }) => choice?.delta?.tool_calls), [
    [{ index: 1, id: 'c1', function: { name: 'f', arguments: '{' } }],
    [{ index: 1, function: { arguments: '}' } }]
  ])
  const old = completionReader(0, 0)
  const last = { content: 'x', stop: true, stopped_limit: true, tokens_evaluated: 3, tokens_predicted: 1 }
  t.same(old.read(last), [{ choices: [{ index: 0, text: 'x' }] }])
  t.match(old.end(0), { choices: [{ finish_reason: 'length' }], usage: { prompt_tokens: 3 } })
  const stopped = completionReader(0, 0)
  stopped.read({ content: 'x', stop: true, stop_type: 'word', stopping_word: 'END' })
  t.match(stopped.end(0), { choices: [{ finish_reason: 'stop', stop_text: 'END' }] })
  for (const event of [{}, { choices: 3 }, { choices: [null] }, { usage: [], timings: 'x' }]) {
    t.same(chatReader(0, 0).read(event), [], JSON.stringify(event))
  }
  t.end()
})

t.test('errors of other servers', (t) => {
  const told = 'request (12 tokens) exceeds the available context size (8 tokens), try increasing it'
  t.match(serverError({ error: { message: told } }, 'm', 400),
    { reason: 'context_length_exceeded', details: { prompt_tokens: 12, context_length: 8 } })
  const embedded = 'input (600 tokens) is too large to process. increase the physical batch size ' +
    '(current batch size: 512)'
  t.match(serverError({ message: embedded, code: 500, type: 'server_error' }, 'm'),
    { reason: 'context_length_exceeded', details: { prompt_tokens: 600 } })
  t.match(serverError({ error: { message: 'Failed to load image or audio file' } }, 'm', 500),
    { reason: 'invalid_request', message: /cannot be decoded/, details: { issues: [{ path: 'messages' }] } })
  for (const message of [
    'got exception: Unexpected empty grammar stack after accepting piece: {"x (90)',
    'The model produced output that does not match the expected peg-native format'
  ]) {
    t.match(serverError({ error: { code: 500, message, type: 'server_error' } }, 'm'),
      { reason: 'tool_call_unreadable', message: /^m started a tool call.*\((llama-server: )(got|The)/ })
  }
  t.match(serverError({ error: { code: 501, message: 'no', type: 'not_supported_error' } }, 'm', 501),
    { reason: 'invalid_request' })
  for (const body of [undefined, null, 'x', {}, { error: 'x' }, { error: { message: 4 } }]) {
    t.match(serverError(body, 'm', 502), { reason: 'provider_error', message: /502 without a message/ })
  }
  const template = '\n------------\nWhile executing CallExpression at line 3, column 9 in source:\n' +
    '...{%- if x -%}{{ raise_exception(...) }}\n           ^\nError: Jinja Exception: roles must alternate'
  const native = 'the cache is full\n#1 0x00007f llama_decode+0x12\n/opt/lib/libllama.so(+0x1f) [0x7f]'
  for (const [message, told] of [[template, 'Jinja Exception: roles must alternate'],
    [`cannot render: ${template}`, 'cannot render: Jinja Exception: roles must alternate'],
    [native, 'the cache is full']] as const) {
    t.equal(serverError({ error: { message } }, 'm', 500).message, `llama-server failed: ${told}`)
  }
  const opened = { error: { message: 'cannot open "/srv/a b.gguf" (/opt/x): /etc/y at #/a/b' } }
  t.equal(serverError(opened, 'm').message,
    'llama-server failed: cannot open "[path]" ([path]): [path] at #/a/b', 'no paths')
  t.ok(serverError({ error: { message: 'x'.repeat(1e5) } }, 'm', 500).message.length < 1_100)
  t.end()
})

t.test('several streams as one', async (t) => {
  let open = 0
  async function * count (to: number, wrong = false): AsyncGenerator<number> {
    open++
    try {
      for (let i = 0; i < to; i++) yield i
      if (wrong) throw new Error('wrong')
    } finally {
      open--
    }
  }
  const all: number[] = []
  for await (const number of merged([count(3), count(1), count(0)])) all.push(number)
  t.same(all.sort(), [0, 0, 1, 2])
  let most = 0
  const five = [2, 0, 3, 1, 2].map((to) => count(to))
  const bounded: number[] = []
  for await (const number of merged(five, 2)) {
    most = Math.max(most, open)
    bounded.push(number)
  }
  t.same(bounded.sort(), [0, 0, 0, 0, 1, 1, 1, 2].sort(), 'all of each')
  t.equal(most, 2, 'no more at once')
  for await (const number of merged([count(9), count(9)])) if (number === 2) break
  await t.rejects(async () => { for await (const number of merged([count(9), count(1, true)])) void number },
    { message: 'wrong' })
  await new Promise((resolve) => { setImmediate(resolve) })
  t.equal(open, 0, 'all are let go')
})

t.test('output', (t) => {
  const cutter = new LineCutter()
  t.same(cutter.push(Buffer.from('a\r\nb')), ['a'])
  t.same(cutter.push(Buffer.from('c\n\n')), ['bc'])
  for (let i = 0; i < 100; i++) t.same(cutter.push(Buffer.alloc(1000, 'x')), [])
  t.same(cutter.push(Buffer.from('\n')).map((line) => line.length), [501])
  let now = 0
  const logged: [string, number][] = []
  const output = new Output((line, leftOut) => { logged.push([line, leftOut]) }, () => now)
  for (let i = 0; i < 30; i++) output.add(i % 2 === 0 ? `Error ${i}` : 'fine')
  t.equal(logged.length, 10)
  now = 10_000
  output.add('failed to x')
  t.same(logged.at(-1), ['failed to x', 5])
  t.equal(output.last, 'Error 26 | fine | Error 28 | fine | failed to x')
  t.end()
})
