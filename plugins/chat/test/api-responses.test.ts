import t from 'tap'
import OpenAI from 'openai'
import { kernelError } from '../../../kernel/index.js'
import { fromResponses } from '../api/responses.js'
import { admitted, call, calling, delta, done, MODEL, namesField, png, startChat, values } from './api-kit.js'

const URL_ = '/v1/responses'
const body = { model: MODEL, input: 'Hi' }

t.test('requests as chat requests', (t) => {
  const rules = { aliases: {}, sees: (id: string) => id === 'a/eyes' }
  const of = (more: object) => fromResponses({ ...body, ...more }, rules)
  const url = `data:image/png;base64,${png(2, 1)}`
  const looking = (image: object): object => ({ model: 'a/eyes', input: [
    { role: 'user', content: [{ type: 'input_text', text: 'Hi' }, { type: 'input_image', ...image }] }
  ] })
  const item = (id: string): object => ({ type: 'function_call', call_id: id, name: 'f', arguments: '{}' })
  const called = (id: string): object => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })
  const rows: [object, object][] = [
    [{}, { model: MODEL, messages: [{ role: 'user', content: 'Hi' }] }],
    [{ instructions: 'Be brief.', max_output_tokens: 7, temperature: 0, parallel_tool_calls: false }, {
      messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hi' }],
      max_tokens: 7, temperature: 0, parallel_tool_calls: false
    }],
    [{ input: [
      { role: 'developer', content: 'Be kind.' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      { type: 'reasoning', id: 'rs_1', summary: [] }, item('c1'), item('c2'),
      { type: 'function_call_output', call_id: 'c1', output: '5' },
      { role: 'assistant', content: [{ type: 'output_text', text: 'Five.' }] }
    ] }, { messages: [
      { role: 'developer', content: 'Be kind.' },
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: null, tool_calls: [called('c1'), called('c2')] },
      { role: 'tool', tool_call_id: 'c1', content: '5' },
      { role: 'assistant', content: 'Five.' }
    ] }],
    [looking({ image_url: url, detail: 'low' }), { messages: [{ role: 'user', content: [
      { type: 'text', text: 'Hi' }, { type: 'image_url', image_url: { url, detail: 'low' } }
    ] }] }],
    [{ tools: [{ type: 'function', name: 'f', parameters: {}, strict: true }], tool_choice: 'required' },
      {
        tools: [{ type: 'function', function: { name: 'f', parameters: {}, strict: true } }],
        tool_choice: 'required'
      }],
    [{ tool_choice: { type: 'function', name: 'f' }, top_p: null },
      { tool_choice: { type: 'function', function: { name: 'f' } } }],
    [{ text: { format: { type: 'json_schema', name: 'x', schema: { type: 'object' } } } },
      { response_format: { type: 'json_schema', json_schema: { schema: { type: 'object' } } } }],
    [{ text: { format: { type: 'json_object' } }, reasoning: { effort: 'low' } },
      { response_format: { type: 'json_object' }, reasoning_effort: 'low' }]
  ]
  for (const [more, expect] of rows) t.match(of(more), expect)
  const refused: [object, string][] = [
    [{ tools: [{ type: 'web_search' }] }, 'tools.0.type'],
    [{ tools: [{ type: 'function' }] }, 'tools.0.name'],
    [{ tool_choice: { type: 'mcp' } }, 'tool_choice'],
    [{ text: { format: { type: 'json_schema' } } }, 'text.format.schema'],
    [{ input: [{ type: 'item_reference', id: 'x' }] }, 'input.0.type'],
    [{ input: [{ role: 'tool', content: 'x' }] }, 'input.0.role'],
    [{ input: [{ role: 'user' }] }, 'input.0.content'],
    [{ input: [{ role: 'user', content: [5] }] }, 'input.0.content'],
    [{ instructions: 'x', input: [{ role: 'user', content: [{ type: 'input_image' }] }] },
      'input.0.content.0'],
    [looking({ image_url: 'https://a.example/x.png' }), 'input.0.content.1.image_url'],
    [looking({ image_url: url.slice(0, 40) }), 'input.0.content.1.image_url'],
    [looking({ file_id: 'f' }), 'input.0.content.1.file_id'],
    [looking({}), 'input.0.content.1.image_url.url'],
    [{ model: 'a/eyes', input: [{ role: 'assistant', content: [{ type: 'input_image', image_url: url }] }] },
      'input.0.content.0'],
    [{ input: [item('c'), { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text' }] }] },
      'input.1.output.0.text'],
    [{ input: [{ type: 'function_call', call_id: 'c' }] }, 'input.0.name']
  ]
  for (const [more, param] of refused) namesField(t, () => of(more), param)
  t.end()
})

const tools = [{ type: 'function', name: 'f' }, { type: 'function', name: 'g' }]

t.test('a stream of every kind of item, and the same as a whole', async (t) => {
  const { post } = await startChat(t, { open: calling(call('g', '{}', 1)) })
  const answer = await post(URL_, { ...body, tools, stream: true })
  t.match(answer.body, /^: keep-alive\n\n: command_id /)
  const all = values(answer.body) as unknown as { type: string, sequence_number: number, response: object }[]
  t.same(all.map(({ sequence_number: n }) => n), all.map((_value, i) => i), 'numbered without gaps')
  t.same([...answer.body.matchAll(/^event: (.*)$/gm)].map(([, name]) => name), all.map(({ type }) => type))
  const steps = all.map(({ type }) => type.slice('response.'.length))
    .filter((type, i, types) => type !== types[i - 1])
  const args = ['function_call_arguments.delta', 'function_call_arguments.done', 'output_item.done']
  t.same(steps, [
    'created', 'in_progress',
    'output_item.added', 'content_part.added', 'reasoning_text.delta', 'reasoning_text.done',
    'content_part.done', 'output_item.done',
    'output_item.added', 'content_part.added', 'output_text.delta', 'output_text.done', 'content_part.done',
    'output_item.done', 'output_item.added', ...args, 'output_item.added', ...args, 'completed'
  ])
  const output = [
    { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm.' }] },
    {
      type: 'message', status: 'completed',
      content: [{ type: 'output_text', text: 'Look:', annotations: [] }]
    },
    { type: 'function_call', call_id: /^call_/, name: 'f', arguments: '{"a": 1}' },
    { type: 'function_call', call_id: /^call_/, name: 'g', arguments: '{}' }
  ]
  t.match(all.at(-1)?.response, { status: 'completed', output, usage: { total_tokens: 8 }, store: true })
  t.match((await post(URL_, { ...body, tools })).json(), {
    id: /^resp_/, object: 'response', status: 'completed', model: MODEL, output,
    usage: { input_tokens: 5, input_tokens_details: { cached_tokens: 2 }, output_tokens: 3 }
  })
})

t.test('an answer that was cut off, and a failure', async (t) => {
  const { post } = await startChat(t, { open: async function * () {
    yield admitted()
    yield delta('Hel')
    yield done('length')
  } })
  t.match((await post(URL_, { ...body, max_output_tokens: 1 })).json(), {
    status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' },
    output: [{ status: 'incomplete', content: [{ text: 'Hel' }] }]
  })
  const failing = await startChat(t, { open: async function * () {
    yield admitted()
    throw kernelError('instance_lost')
  } })
  const stream = await failing.post(URL_, { ...body, stream: true })
  t.match(values(stream.body).at(-1), { type: 'error', code: 'instance_lost', error: { retryable: true } })
})

t.test('the official client', async (t) => {
  const { rig } = await startChat(t)
  const client = new OpenAI({
    baseURL: `${await rig.listen()}/v1`, apiKey: 'none', maxRetries: 0,
    defaultHeaders: { authorization: null }
  })
  const whole = await client.responses.create({ model: MODEL, input: 'Hi' })
  t.equal(whole.output_text, 'Hello there.')
  const stream = client.responses.stream({ model: MODEL, input: 'Hi' })
  let said = ''
  for await (const event of stream) if (event.type === 'response.output_text.delta') said += event.delta
  t.equal(said, 'Hello there.')
  t.equal((await stream.finalResponse()).output_text, 'Hello there.')
  await t.rejects(client.responses.create({ model: MODEL, input: 'Hi', background: true }),
    { status: 400, code: 'unsupported_parameter', param: 'background' })
})
