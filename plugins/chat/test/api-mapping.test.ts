import t from 'tap'
import { EngineError, SvcError } from '../../../kernel/index.js'
import { asRequestError, deeperThan } from '../api/errors.js'
import { chatTask, completionTask } from '../api/request-to-task.js'
import { hello, MODEL, png } from './api-kit.js'
import type { Limits } from '../api/errors.js'

const limits: Limits = {
  max_messages: 4, max_stops: 2, max_answers: 2, max_inputs: 4, max_tools: 2, schema_kib: 1, schema_depth: 5
}
const aliases = { 'gpt-4o': MODEL }
const rules = { limits, aliases, sees: (modelId: string) => modelId === 'a/eyes' }
const task = (body: object) => chatTask({ ...hello, ...body }, rules)
const plain = (body: object) =>
  completionTask({ model: MODEL, prompt: 'A', ...body }, { limits, aliases: {}, sees: () => false })

/** The refusal's field and words. */
function refusal (make: () => unknown): [string | null, string] {
  try {
    make()
  } catch (error) {
    if (error instanceof SvcError && error.reason === 'invalid_request') return [error.param, error.message]
    throw error
  }
  throw new Error('nothing was refused')
}

const user = (content: unknown): object => ({ messages: [{ role: 'user', content }] })
const tool = (name: string, parameters?: object): object =>
  ({ type: 'function', function: { name, parameters } })

t.test('messages', (t) => {
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }
  const calling = { role: 'assistant', content: null, tool_calls: [call] }
  const result = { role: 'tool', tool_call_id: 'c1', content: '5' }
  const refusing = [{ type: 'refusal', refusal: 'No.' }]
  const rows: [object[], object[]][] = [
    [[{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: 'Hi', name: 'Ann' }],
      [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hi', name: 'Ann' }]],
    [[{ role: 'user', content: [{ type: 'text', text: 'one' }, { type: 'text', text: 'two' }] }],
      [{ role: 'user', content: 'one\ntwo' }]],
    [[calling, result], [calling, result]],
    [[{ role: 'assistant', content: refusing, reasoning_content: 'Hm', tool_calls: null }],
      [{ role: 'assistant', content: 'No.', reasoning_content: 'Hm' }]],
    [[{ role: 'user', content: '', name: null }], [{ role: 'user', content: '' }]]
  ]
  for (const [messages, expect] of rows) t.same(task({ messages }).task.payload['messages'], expect)
  t.end()
})

t.test('images reach a model that reads them', (t) => {
  const of = (url: unknown): object => {
    const parts = [{ type: 'text', text: 'What is it?' }, { type: 'image_url', image_url: { url } }]
    return { model: 'a/eyes', ...user(parts) }
  }
  const url = `data:image/png;base64,${png(2, 1)}`
  t.match(task(of(url)).task.payload['messages'], [{ role: 'user', content: [
    { type: 'text', text: 'What is it?' }, { type: 'image_url', image_url: { url } }
  ] }])
  const large = Buffer.from(png(2, 1), 'base64')
  large.writeUInt32BE(65536, 16)
  large.writeUInt32BE(65536, 20)
  const rows: [unknown, RegExp][] = [
    ['https://10.0.0.1/x.png', /is an address\. None is fetched here/],
    ['file:///etc/passwd', /is an address/],
    ['data:image/svg+xml;base64,AAAA', /must be a png/], ['data:image/png;base64,%%', /must be a png/],
    ['data:text/plain,hello', /must be a png/], ['data:image/png;base64,iVBORw0KGgo=', /must be a png/],
    [`data:image/png;base64,${large.toString('base64')}`, /has 65536 x 65536 pixels; at most 33554432 are/],
    [7, /must be a string/]
  ]
  for (const [given, message] of rows) {
    t.throws(() => task(of(given)), { reason: 'invalid_request', message,
      details: { param: /^messages\.0\.content\.1\.image_url/ } })
  }
  t.end()
})

t.test('messages that are refused', (t) => {
  const rows: [object, string, RegExp][] = [
    [user([{ type: 'image_url', image_url: {} }]), 'messages.0.content.0', /is an image, and .* text only/],
    [user([{ type: 'text', text: 'a' }, { type: 'input_audio' }]), 'messages.0.content.1', /is sound/],
    [user([{ type: 'smell' }]), 'messages.0.content.0.type', /"smell" is not known/],
    [user([{ type: 'text' }]), 'messages.0.content.0.text', /must be a string/],
    [user(null), 'messages.0.content', /is required/],
    [{ messages: [{ role: 'assistant', tool_calls: [] }] }, 'messages.0.content', /is required/],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages.0.tool_call_id', /is required/],
    [{ messages: Array(5).fill(hello.messages[0]) }, 'messages', /has 5 messages; at most 4/]
  ]
  for (const [body, param, message] of rows) {
    const [field, words] = refusal(() => task(body))
    t.equal(field, param)
    t.match(words, message)
  }
  t.end()
})

t.test('parameters: only those that the client has set', (t) => {
  const schema = { type: 'object' }
  const held = (more: object = {}): object =>
    ({ response_format: { type: 'json_schema', json_schema: { schema, ...more } } })
  const rows: [object, object][] = [
    [{}, {}],
    [{ temperature: 0, top_p: 0.5, min_p: 0.1, seed: -3, frequency_penalty: 1, presence_penalty: -1 },
      { temperature: 0, top_p: 0.5, min_p: 0.1, seed: -3, frequency_penalty: 1, presence_penalty: -1 }],
    [{ repetition_penalty: 1.1, logit_bias: { 5: -100 }, top_k: -1 },
      { repetition_penalty: 1.1, logit_bias: { 5: -100 }, top_k: 0 }],
    [{ temperature: null, stop: null, seed: null, max_tokens: null, n: null, mirostat: null }, {}],
    [{ stop: 'END', max_tokens: 5, n: 2 }, { n: 2, stop: ['END'], max_tokens: 5 }],
    [{ stop: ['a', 'b'], max_tokens: 5, max_completion_tokens: 7 }, { stop: ['a', 'b'], max_tokens: 7 }],
    [{ max_tokens: -1 }, {}], [{ n_predict: 9 }, { n_predict: 9 }], [{ n_predict: -1 }, {}],
    [{ max_tokens: 5, n_predict: 9 }, { max_tokens: 5 }],
    [{ logprobs: true }, { logprobs: true, top_logprobs: 0 }],
    [{ logprobs: true, top_logprobs: 5 }, { logprobs: true, top_logprobs: 5 }],
    [{ n_probs: 3 }, { logprobs: true, top_logprobs: 3 }], [{ n_probs: 0 }, {}],
    [{ logprobs: false, top_logprobs: 0 }, {}],
    [{ repeat_penalty: 1.2 }, { repetition_penalty: 1.2 }],
    [{ mirostat: 2, typical_p: 0.9, samplers: ['top_k'], ignore_eos: true, grammar: 'root ::= "a"' },
      { mirostat: 2, typical_p: 0.9, samplers: ['top_k'], ignore_eos: true, grammar: 'root ::= "a"' }],
    [{ response_format: { type: 'text' } }, {}],
    [{ response_format: { type: 'json_object' } }, { response_format: { type: 'json_object' } }],
    [{ response_format: { type: 'json_object', schema } }, held()],
    [{ json_schema: schema }, held()],
    [{ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }, held()],
    [{ response_format: { type: 'json_schema', json_schema: { schema, strict: true } } },
      held({ strict: true })]
  ]
  for (const [body, expect] of rows) {
    const { messages: _, ...made } = task(body).task.payload
    t.same(made, expect, JSON.stringify(body))
  }
  t.end()
})

t.test('tools', (t) => {
  const tools = [tool('a', { type: 'object' }), tool('b')]
  const named = { type: 'function', function: { name: 'b' } }
  const json = { response_format: { type: 'json_object' } }
  const rows: [object, object, number][] = [
    [{ tools }, { tools }, Infinity],
    [{ tools, tool_choice: 'auto', ...json }, { tools, tool_choice: 'auto', ...json }, Infinity],
    [{ tools, tool_choice: named, parallel_tool_calls: false },
      { tools, tool_choice: named, parallel_tool_calls: false }, 1],
    [{ tools, tool_choice: 'none' }, {}, Infinity],
    [{ tools, tool_choice: 'none', ...json }, json, Infinity],
    [{ tools: [], tool_choice: 'auto', parallel_tool_calls: true }, {}, Infinity]
  ]
  for (const [body, expect, mostCalls] of rows) {
    const { task: { payload: { messages: _, ...made } }, reading } = task(body)
    t.same(made, expect)
    t.same(reading, { mostCalls })
  }
  const told = task({ reasoning_effort: 'none', chat_template_kwargs: { style: 1 } })
  t.same(told.task.payload['chat_template_kwargs'],
    { reasoning_effort: 'none', enable_thinking: false, style: 1 })
  t.equal(task({ model: 'gpt-4o' }).modelId, MODEL)
  t.equal(task({ model: 'toString' }).modelId, 'toString')
  t.end()
})

t.test('what is refused', (t) => {
  const deep = { a: { b: { c: { d: { e: {} } } } } }
  const format = (json_schema?: object): object => ({ response_format: { type: 'json_schema', json_schema } })
  const rows: [object, string, RegExp][] = [
    [{ stop: ['a', 'b', 'c'] }, 'stop', /has 3 texts; at most 2/],
    [{ n: 3 }, 'n', /is 3; at most 2/],
    [{ top_logprobs: 2 }, 'top_logprobs', /needs logprobs: true/],
    [{ max_tokens: 0 }, 'max_tokens', /is 0/], [{ n_predict: 0 }, 'n_predict', /is 0/],
    [{ json_schema: deep }, 'json_schema', /nested deeper/],
    [{ response_format: { type: 'json_object', schema: deep } }, 'response_format.schema', /nested deeper/],
    [{ messages: [{ role: 'assistant', content: '', function_call: {} }] },
      'messages.0.function_call', /send tool_calls/],
    [{ tools: [tool('a'), tool('b'), tool('c')] }, 'tools', /has 3 tools; at most 2/],
    [{ tools: [tool('a', deep)] }, 'tools.0.function.parameters', /nested deeper than 5 levels/],
    [{ tool_choice: 'required' }, 'tool_choice', /needs tools/],
    [{ tool_choice: 'sometimes' }, 'tool_choice', /must be "none"/],
    [{ tools: [tool('a')], tool_choice: { type: 'function', function: { name: 'z' } } },
      'tool_choice.function.name', /"z" is none of the tools/],
    ...['messages', 'tools', 'add_generation_prompt', 'bos_token'].map((name): [object, string, RegExp] =>
      [{ chat_template_kwargs: { [name]: [] } }, `chat_template_kwargs.${name}`, /leave it out/]),
    [format(), 'response_format.json_schema', /is required/],
    [format({ schema: deep }), 'response_format.json_schema.schema', /deeper than 5 levels/],
    [format({ schema: { title: 'x'.repeat(1024) } }), 'response_format.json_schema.schema', /at most 1024/]
  ]
  for (const [body, param, message] of rows) {
    const [field, words] = refusal(() => task(body))
    t.equal(field, param)
    t.match(words, message)
  }
  t.end()
})

t.test('plain prompts', (t) => {
  const rows: [object, object][] = [
    [{}, { prompt: 'A', max_tokens: 16 }], [{ max_tokens: -1 }, { prompt: 'A', max_tokens: undefined }],
    [{ n_predict: 4, n_probs: 2 }, { n_predict: 4, max_tokens: undefined, top_logprobs: 2 }],
    [{ json_schema: { type: 'object' }, grammar: 'x' }, { json_schema: { type: 'object' }, grammar: 'x' }],
    [{ prompt: ['B'], max_tokens: 3 }, { prompt: 'B', max_tokens: 3 }],
    [{ prompt: [1, 2] }, { prompt: [1, 2] }],
    [{ prompt: [7] }, { prompt: [7] }],
    [{ prompt: [[1, 2]], logprobs: 2, suffix: '', best_of: 1, echo: false },
      { prompt: [1, 2], logprobs: true, top_logprobs: 2 }]
  ]
  for (const [body, payload] of rows) {
    t.match(plain(body), {
      modelId: MODEL, capability: 'completions', reading: { mostCalls: 0 },
      task: { kind: 'completion', payload }
    })
  }
  const several = plain({ prompt: ['a', [3, 4]], n: 2 })
  t.match(several, { task: { payload: { prompt: 'a', n: 2 } }, more: {
    answers: 2, prompts: [{ task: { kind: 'completion', payload: { prompt: [3, 4], n: 2 } } }]
  } })
  t.match(plain({ prompt: ['a', 'b'], echo: true }),
    { reading: { echo: 'a' }, more: { prompts: [{ reading: { echo: 'b' } }] } })
  const refused: [object, string][] = [
    [{ echo: true, logprobs: 1 }, 'echo'], [{ echo: true, prompt: [1] }, 'prompt'], [{ n: 3 }, 'n'],
    [{ echo: true, prompt: ['a', [1]] }, 'prompt.1'], [{ prompt: Array(5).fill('a') }, 'prompt'],
    [{ prompt: [] }, 'prompt'], [{ prompt: ['a', []] }, 'prompt.1'], [{ prompt: [1.5] }, 'prompt.0'],
    [{ prompt: [-1] }, 'prompt.0'], [{ prompt: [null] }, 'prompt.0']
  ]
  for (const [body, param] of refused) t.equal(refusal(() => plain(body))[0], param)
  t.end()
})

t.test('depth is looked at no further than the limit', (t) => {
  let value: unknown = 1
  for (let i = 0; i < 100_000; i++) value = { a: [value] }
  t.equal(deeperThan(value, 32), true)
  t.equal(deeperThan({ a: [1] }, 2), false)
  t.equal(deeperThan({ a: [1] }, 1), true)
  t.equal(deeperThan('text', 0), false)
  t.end()
})

t.test('an engine\'s refusal in the words of the request', (t) => {
  const issues = [{ path: 'seed', message: 'seed takes a whole number' }]
  const error = new EngineError('invalid_request', 'seed is 1.5; n too', { issues })
  t.match(asRequestError(error),
    { reason: 'invalid_request', message: 'seed is 1.5; n too', param: 'seed', details: { issues } })
  t.match(asRequestError(new EngineError('invalid_request', 'no')), { message: 'no', param: null })
  const other = new EngineError('overloaded', 'params.x')
  t.equal(asRequestError(other), other)
  t.end()
})
