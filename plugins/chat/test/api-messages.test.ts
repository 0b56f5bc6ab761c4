import t from 'tap'
import { EngineError, kernelError } from '../../../kernel/index.js'
import { fromAnthropic } from '../api/anthropic.js'
import { admitted, calling, delta, MODEL, namesField, png, startChat, values } from './api-kit.js'
import type { MessagesBody } from '../api/anthropic-body.js'

const URL_ = '/v1/messages'
const body = { model: MODEL, max_tokens: 50, messages: [{ role: 'user', content: 'Hi' }] }

t.test('requests as chat requests', (t) => {
  const rules = { aliases: {}, sees: (id: string) => id === 'a/eyes' }
  const of = (more: object) => fromAnthropic({ ...body, ...more } as MessagesBody, rules)
  const image = (source: object): object =>
    ({ model: 'a/eyes', system: 'x', messages: [{ role: 'user', content: [{ type: 'image', source }] }] })
  const url = `data:image/png;base64,${png(2, 1)}`
  t.match(of(image({ type: 'base64', media_type: 'image/jpeg', data: png(2, 1) })).messages[1],
    { role: 'user', content: [{ type: 'image_url', image_url: { url } }] })
  t.throws(() => of(image({ type: 'url', url: 'https://a.example/x.png' })),
    { details: { param: 'messages.0.content.0.source' }, message: /is an address/ })
  t.throws(() => of(image({ type: 'file', file_id: 'f' })),
    { details: { param: 'messages.0.content.0.source.url' }, message: /must be a string/ })
  t.throws(() => of({ ...image({}), model: 'a/blind' }),
    { details: { param: 'messages.0.content.0' }, message: /a\/blind reads text only/ })
  const rows: [object, object][] = [
    [{ system: 'Be brief.', stop_sequences: ['X'], temperature: 0, top_p: 0.5, top_k: 3 }, {
      model: MODEL, max_tokens: 50, stop: ['X'], temperature: 0, top_p: 0.5, top_k: 3,
      messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hi' }]
    }],
    [{ system: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] }, {
      messages: [{ role: 'system', content: 'a\nb' }, { role: 'user', content: 'Hi' }]
    }],
    [{ messages: [
      { role: 'assistant', content: [
        { type: 'thinking', thinking: 'Hm', signature: '' }, { type: 'text', text: 'Wait.' },
        { type: 'tool_use', id: 't1', name: 'f', input: { a: 1 } }
      ] },
      { role: 'user', content: [
        { type: 'text', text: 'Go on.' },
        { type: 'tool_result', tool_use_id: 't1', content: [{ type: 'text', text: '5' }] },
        { type: 'tool_result', tool_use_id: 't2' }
      ] }
    ] }, { messages: [
      { role: 'assistant', content: 'Wait.', reasoning_content: 'Hm', tool_calls: [
        { id: 't1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
      ] },
      { role: 'tool', tool_call_id: 't1', content: '5' }, { role: 'tool', tool_call_id: 't2', content: '' },
      { role: 'user', content: 'Go on.' }
    ] }],
    [{ messages: [
      { role: 'user', content: 'Hi' },
      { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] }
    ] }, { messages: [{ role: 'user', content: 'Hi' }, { role: 'system', content: 'Be brief.' }] }],
    [{ tools: [{ name: 'f', description: 'd', input_schema: { a: 1 } }], tool_choice: { type: 'any' } }, {
      tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: { a: 1 } } }],
      tool_choice: 'required'
    }],
    [{ tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true } },
      { tool_choice: { type: 'function', function: { name: 'f' } }, parallel_tool_calls: false }],
    [{ thinking: { type: 'disabled' } }, { chat_template_kwargs: { enable_thinking: false } }]
  ]
  for (const [more, expect] of rows) t.match(of(more), expect)
  const content = (...blocks: object[]): object => ({ messages: [{ role: 'user', content: blocks }] })
  const refused: [object, string][] = [
    [content({ type: 'image', source: {} }), 'messages.0.content.0'],
    [content({ type: 'tool_result', tool_use_id: 'x' }, { type: 'image' }), 'messages.0.content.1'],
    [content({ type: 'tool_result' }), 'messages.0.content.0.tool_use_id'],
    [content({ type: 'tool_result', tool_use_id: 'x', content: 5 }), 'messages.0.content.0.content'],
    [{ messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'x' }] }, ...body.messages] },
      'messages.0.content.0.name'],
    [content({ type: 'text', text: 'x' }, { type: 'tool_use', id: 'x', name: 'f' }),
      'messages.0.content.1.type'],
    [{ tools: [{ type: 'bash_20250124', name: 'bash' }] }, 'tools.0.type'],
    [{ tool_choice: { type: 'tool' } }, 'tool_choice.name']
  ]
  for (const [more, param] of refused) namesField(t, () => of(more), param)
  t.end()
})

const tools = [{ name: 'f', input_schema: { type: 'object' } }]

t.test('a whole message', async (t) => {
  const { post } = await startChat(t, { open: calling() })
  const answer = await post(URL_, { ...body, tools })
  t.equal(answer.statusCode, 200, answer.body)
  t.match(answer.json(), {
    id: /^msg_/, type: 'message', role: 'assistant', model: MODEL,
    stop_reason: 'tool_use', stop_sequence: null,
    content: [
      { type: 'thinking', thinking: 'Hm.' }, { type: 'text', text: 'Look:' },
      { type: 'tool_use', id: /^call_/, name: 'f', input: { a: 1 } }
    ],
    usage: { input_tokens: 3, cache_read_input_tokens: 2, output_tokens: 3 }
  })
})

t.test('the query that clients of the beta send', async (t) => {
  const { post } = await startChat(t)
  t.equal((await post(`${URL_}?beta=true`, body)).statusCode, 200)
  t.match((await post(`${URL_}?bta=true`, body)).json(), { error: { message: /bta is not a known field/ } })
})

t.test('a streamed message', async (t) => {
  const { post } = await startChat(t, { open: calling() })
  const answer = await post(URL_, { ...body, tools, stream: true })
  t.match(answer.headers, { 'content-type': 'text/event-stream', 'x-svc-command-id': String })
  const names = [...answer.body.matchAll(/^event: (.*)$/gm)].map(([, name]) => name)
  const all = values(answer.body) as unknown as {
    type: string
    index: number
    delta: { type: string, thinking?: string, text?: string, partial_json?: string }
  }[]
  t.same(all.map(({ type }) => type), names, 'each event is named by its type')
  const steps = names.filter((name, i) => name !== names[i - 1])
  const block = ['content_block_start', 'content_block_delta', 'content_block_stop']
  t.same(steps, ['message_start', 'ping', ...block, ...block, ...block, 'message_delta', 'message_stop'])
  const usage = { input_tokens: 5, output_tokens: 0 }
  t.match(all[0], { message: { role: 'assistant', content: [], usage } })
  const said = (index: number): string => all.filter((value) => value.index === index)
    .map(({ delta }) => delta?.thinking ?? delta?.text ?? delta?.partial_json ?? '').join('')
  t.same([0, 1, 2].map(said), ['Hm.', 'Look:', '{"a": 1}'])
  t.match(all.filter(({ type }) => type === 'content_block_start'), [
    { content_block: { type: 'thinking' } }, { content_block: { type: 'text' } },
    { content_block: { type: 'tool_use', id: /^call_/, name: 'f', input: {} } }
  ])
  t.match(all.at(-2), { delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 3 } })
})

t.test('refusals and failures', async (t) => {
  const { post } = await startChat(t, { open: async function * () {
    yield admitted()
    yield delta('Hel')
    throw kernelError('instance_lost')
  } })
  const stream = await post(URL_, { ...body, stream: true })
  t.match(stream.body, /event: error\ndata: \{"type":"error","error":\{/)
  t.match(values(stream.body).at(-1), { type: 'error', error: { reason: 'instance_lost', retryable: true } })
  const long = await startChat(t, { open: async function * () {
    throw new EngineError('context_length_exceeded', 'no', { prompt_tokens: 200, context_length: 128 })
  } })
  t.match((await long.post(URL_, body)).json(),
    { error: { type: 'invalid_request_error', message: 'prompt is too long: 200 tokens > 128 maximum' } })
  const rows: [object, number, RegExp][] = [
    [{ ...body, max_tokens: 0 }, 400, /max_tokens/],
    [{ ...body, messages: [] }, 400, /messages/],
    [{ ...body, messages: [{ role: 'tool', content: 'x' }] }, 400, /role/],
    [{ ...body, model: 'acme/none' }, 404, /no_instance/]
  ]
  for (const [given, status, expect] of rows) {
    const answer = await post(URL_, given)
    t.equal(answer.statusCode, status)
    t.match(answer.body, expect)
  }
})

t.test('the stop text that ended an answer is named', async (t) => {
  const { post } = await startChat(t, { open: async function * () {
    yield admitted()
    yield delta('Hello')
    yield { payload: { choices: [{ index: 0, delta: {}, finish_reason: 'stop', stop_text: 'END' }] } }
  } })
  const ended = { stop_reason: 'stop_sequence', stop_sequence: 'END' }
  t.match((await post(URL_, { ...body, stop_sequences: ['END'] })).json(), ended)
  const { body: text } = await post(URL_, { ...body, stop_sequences: ['END'], stream: true })
  t.match(values(text).at(-2), { type: 'message_delta', delta: ended })
})
