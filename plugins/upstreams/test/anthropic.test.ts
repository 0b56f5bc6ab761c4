import t from 'tap'
import { messagesBody, messagesReader } from '../anthropic.js'
import { ask, fakeServer, say, start } from './kit.js'

const user = (content: unknown): object => ({ role: 'user', content })
const image = (url: string): object => ({ type: 'image_url', image_url: { url } })
const use = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }

t.test('requests in Anthropic\'s form', (t) => {
  const hi = [user('hi')]
  const turn = { role: 'user', content: [{ type: 'text', text: 'hi' }] }
  const schema = { type: 'object' }
  const tools = [{ type: 'function', function: { name: 'f', description: 'd', parameters: schema } }]
  const told = [{ name: 'f', description: 'd', input_schema: schema }]
  const rows: [string, Record<string, unknown>, object][] = [
    ['the least', { model: 'm', stream: true, messages: hi, seed: 4, min_p: 1, logit_bias: {} },
      { model: 'm', stream: true, max_tokens: 4096, messages: [turn] }],
    ['sampling', { messages: hi, max_tokens: 9, temperature: 0, top_p: 0.5, top_k: 3, stop: 'x' },
      { max_tokens: 9, temperature: 0, top_k: 3, stop_sequences: ['x'], messages: [turn] }],
    ['what it would refuse',
      { messages: [user(''), ...hi, { role: 'assistant', content: '' }, user([{ type: 'text', text: '' }])],
        temperature: 1.5, reasoning_effort: 'none' },
      { max_tokens: 4096, temperature: 1, messages: [turn] }],
    ['one of both', { messages: hi, top_p: 0.5 }, { max_tokens: 4096, top_p: 0.5, messages: [turn] }],
    ['instructions',
      { messages: [{ role: 'system', content: 'a' }, ...hi, { role: 'developer', content: 'b' }] },
      { max_tokens: 4096, messages: [turn],
        system: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] }],
    ['images', { messages: [
      user([image('data:image/png;base64,AAA='), image('https://x/y'), { type: 'text', text: 't' }])
    ] },
    { max_tokens: 4096, messages: [{ role: 'user', content: [
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAA=' } },
      { type: 'image', source: { type: 'url', url: 'https://x/y' } }, { type: 'text', text: 't' }
    ] }] }],
    ['results of tools, joined with the next message',
      { messages: [...hi, { role: 'assistant', content: null, tool_calls: [use] },
        { role: 'tool', tool_call_id: 'c1', content: '5' }, user('and?')] },
      { max_tokens: 4096, messages: [turn,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'f', input: { a: 1 } }] },
        { role: 'user', content: [
          { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: '5' }] },
          { type: 'text', text: 'and?' }
        ] }] }],
    ['a tool by name', { messages: hi, tools, tool_choice: { type: 'function', function: { name: 'f' } } },
      { max_tokens: 4096, messages: [turn], tool_choice: { type: 'tool', name: 'f' },
        tools: told }],
    ['one of the tools, one call',
      { messages: hi, tools, tool_choice: 'required', parallel_tool_calls: false },
      { max_tokens: 4096, messages: [turn], tool_choice: { type: 'any', disable_parallel_tool_use: true },
        tools: told }],
    ['a schema and effort', { messages: hi, reasoning_effort: 'low',
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' } } } },
    { max_tokens: 4096, messages: [turn],
      output_config: { effort: 'low', format: { type: 'json_schema', schema: { type: 'object' } } } }]
  ]
  for (const [name, body, wanted] of rows) t.strictSame(messagesBody(body), wanted, name)
  t.throws(() => messagesBody({ messages: hi, response_format: { type: 'json_object' } }),
    /response_format: the server of this model needs a json_schema/)
  t.end()
})

const event = (type: string, more: object): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
const block = (index: number, start: object, ...deltas: object[]): string =>
  event('content_block_start', { index, content_block: start }) +
  deltas.map((delta) => event('content_block_delta', { index, delta })).join('') +
  event('content_block_stop', { index })
const begin = event('message_start', { message: {
  id: 'msg_1', role: 'assistant', content: [], stop_reason: null,
  usage: { input_tokens: 5, cache_read_input_tokens: 20, cache_creation_input_tokens: 1, output_tokens: 1 }
} }) + event('ping', {})
const end = (reason: string): string => event('message_delta', {
  delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 9 }
}) + event('message_stop', {})
const said = (...texts: string[]): string => block(0, { type: 'text', text: '' },
  ...texts.map((text) => ({ type: 'text_delta', text })))

t.test('a chat with a server that speaks Anthropic\'s API', async (t) => {
  const fake = await fakeServer(t, say(begin +
    block(0, { type: 'thinking', thinking: '' }, { type: 'thinking_delta', thinking: 'hm' },
      { type: 'signature_delta', signature: 'x' }) +
      said('Hel', 'lo') +
      block(2, { type: 'tool_use', id: 'c1', name: 'f', input: {} },
        { type: 'input_json_delta', partial_json: '{"a"' },
        { type: 'input_json_delta', partial_json: ':1}' }) +
        block(3, { type: 'tool_use', id: 'c2', name: 'g', input: {} }) + end('tool_use')))
  const rig = await start(t, { servers: {
    far: { url: fake.url, key: 'sk-ant-0123456789', api: 'anthropic', models: ['m'] }
  } })
  const whole = await ask(rig, 'far/m')
  t.match(whole.json(), {
    choices: [{ finish_reason: 'tool_calls', message: {
      content: 'Hello', reasoning_content: 'hm', tool_calls: [
        { id: 'c1', function: { name: 'f', arguments: '{"a":1}' } },
        { id: 'c2', function: { name: 'g', arguments: '{}' } }
      ]
    } }],
    usage: { prompt_tokens: 26, completion_tokens: 9, prompt_tokens_details: { cached_tokens: 20 } }
  }, whole.body)
  const [{ url, headers, body }] = fake.asked as [typeof fake.asked[number]]
  t.equal(url, '/v1/messages')
  t.match(headers, { 'x-api-key': 'sk-ant-0123456789', 'anthropic-version': '2023-06-01' })
  t.notOk('authorization' in headers)
  t.match(body, { model: 'm', stream: true, max_tokens: Number })
  fake.state.answer = say(begin +
    event('content_block_start', { index: 0, content_block: { type: 'text', text: 'Hi' } }) +
    event('content_block_start', { index: 1, content_block: { type: 'tool_use', id: 'a', name: 'f' } }) +
    event('content_block_start', {
      index: 2, content_block: { type: 'tool_use', id: 'b', name: 'g', input: { c: 3 } }
    }) +
    event('content_block_delta', { index: 1, delta: { type: 'input_json_delta', partial_json: '{"d":4}' } }) +
    event('content_block_stop', { index: 2 }) + event('content_block_stop', { index: 1 }) + end('tool_use'))
  t.match((await ask(rig, 'far/m')).json(), { choices: [{ message: { content: 'Hi', tool_calls: [
    { id: 'a', function: { arguments: '{"d":4}' } }, { id: 'b', function: { arguments: '{"c":3}' } }
  ] } }] }, 'blocks that overlap, and whole inputs at the start')
  const reasons = { end_turn: 'stop', max_tokens: 'length', refusal: 'stop' }
  for (const [reason, finish] of Object.entries(reasons)) {
    fake.state.answer = say(begin + said('a') + end(reason))
    t.match((await ask(rig, 'far/m')).json(), { choices: [{ finish_reason: finish }] }, reason)
  }
  const rows: [string, object][] = [
    [begin, { status: 502, message: 'far ended an answer early.' }],
    [begin + event('error', { error: { type: 'overloaded_error', message: 'Overloaded' } }),
      { status: 503, message: /Overloaded/ }]
  ]
  for (const [text, wanted] of rows) {
    fake.state.answer = say(text)
    const refused = await ask(rig, 'far/m')
    t.match({ ...(refused.json() as { error: object }).error, status: refused.statusCode }, wanted)
  }
  t.match(await ask(rig, 'far/m', { response_format: { type: 'json_object' } }), { statusCode: 400 })
  t.equal(messagesReader(0, 0).end(0), null)
})
