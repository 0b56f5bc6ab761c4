import t from 'tap'
import { kernelError } from '../../../kernel/index.js'
import { fromOllamaChat, fromOllamaGenerate, fromOllamaRaw } from '../api/ollama/chat.js'
import { admitted, calling, delta, hello, MODEL, namesField, png, startChat } from './api-kit.js'
import type { OllamaChat } from '../api/ollama/chat.js'

const lines = (body: string): Record<string, never>[] =>
  body.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as Record<string, never>)
const generate = { model: MODEL, prompt: 'Hi' }

t.test('requests as chat requests', (t) => {
  const rules = { aliases: {}, sees: (id: string) => id === 'a/eyes' }
  const chat = (more: object) => fromOllamaChat({ ...hello, ...more } as OllamaChat, rules)
  const prompt = (more: object) => fromOllamaGenerate({ ...generate, ...more }, rules)
  const raw = (more: object) => fromOllamaRaw({ ...generate, raw: true, ...more })
  const called = { function: { name: 'f', arguments: { a: 1 } } }
  const image = png(2, 1)
  const seen = { role: 'user', content: [
    { type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } }, { type: 'text', text: 'Hi' }
  ] }
  const rows: [object, object][] = [
    [chat({ options: { num_predict: 5, repeat_penalty: 1.1, top_k: 3, stop: ['x'], seed: null } }),
      { ...hello, max_tokens: 5, repetition_penalty: 1.1, top_k: 3, stop: ['x'] }],
    [chat({ options: { repeat_last_n: -1 } }), { repeat_last_n: -1 }],
    [prompt({ options: { repeat_last_n: 0 } }), { repeat_last_n: 0 }],
    [chat({ format: 'json', think: false }),
      { response_format: { type: 'json_object' }, chat_template_kwargs: { enable_thinking: false } }],
    [chat({ format: { type: 'object' }, think: 'low' }),
      { response_format: { type: 'json_schema', json_schema: { schema: { type: 'object' } } },
        reasoning_effort: 'low' }],
    [chat({ messages: [
      { role: 'assistant', thinking: 'Hm', tool_calls: [called, called] },
      { role: 'tool', tool_name: 'f', content: '5' }, { role: 'tool', content: '6' }
    ] }), { messages: [
      { role: 'assistant', content: null, reasoning_content: 'Hm', tool_calls: [
        { id: 'call_0', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }, { id: 'call_1' }
      ] },
      { role: 'tool', tool_call_id: 'call_0', name: 'f', content: '5' },
      { role: 'tool', tool_call_id: 'call_1' }
    ] }],
    [chat({ tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: {} } }] }),
      { tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: {} } }] }],
    [chat({ model: 'a/eyes', messages: [{ role: 'user', content: 'Hi', images: [image] }] }),
      { messages: [seen] }],
    [prompt({ model: 'a/eyes', images: [image.replace(/.{60}/g, '$&\n')] }), { messages: [seen] }],
    [prompt({ images: [] }), { messages: [{ role: 'user', content: 'Hi' }] }],
    [prompt({ system: 'Be brief.' }),
      { messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hi' }] }],
    [raw({ options: { num_predict: -1, temperature: 0 } }),
      { prompt: 'Hi', temperature: 0, max_tokens: -1 }]
  ]
  for (const [made, expect] of rows) t.match(made, expect)
  t.notOk('num_ctx' in chat({ options: { num_ctx: 5 } }))
  const refused: [() => unknown, string][] = [
    [() => chat({ messages: [{ role: 'user', content: 'x', images: ['aa'] }] }), 'messages.0.images.0'],
    [() => chat({ model: 'a/eyes', messages: [{ role: 'user', images: [image, 'aa'] }] }),
      'messages.0.images.1'],
    [() => chat({ model: 'a/eyes', messages: [{ role: 'tool', content: '', images: [image] }] }),
      'messages.0.images'],
    [() => prompt({ model: 'a/eyes', images: ['https://a.example/x.png'] }), 'images.0'],
    [() => raw({ model: 'a/eyes', images: [image] }), 'images'],
    [() => chat({ tools: [{}] }), 'tools.0.function.name'], [() => chat({ format: 'xml' }), 'format'],
    [() => prompt({ images: ['aa'] }), 'images.0'], [() => raw({ format: 'json' }), 'format'],
    [() => chat({ messages: [...hello.messages, { role: 'assistant', content: 'b' }] }), 'messages']
  ]
  for (const [make, param] of refused) namesField(t, () => make(), param)
  t.end()
})

const facts = {
  done: true, done_reason: 'stop', prompt_eval_count: 5, eval_count: 3, load_duration: 0,
  total_duration: Number, prompt_eval_duration: 60_000_000, eval_duration: 150_000_000
}

t.test('a chat, in lines and whole', async (t) => {
  const { post } = await startChat(t, { open: calling() })
  const body = { ...hello, tools: [{ type: 'function', function: { name: 'f' } }] }
  const answer = await post('/ollama/api/chat', body)
  t.equal(answer.headers['content-type'], 'application/x-ndjson')
  const calls = [{ function: { name: 'f', arguments: { a: 1 } } }]
  t.match(lines(answer.body), [
    { model: MODEL, created_at: /^\d{4}-.*Z$/, done: false, message: { role: 'assistant', thinking: 'H' } },
    { done: false, message: { content: '', thinking: 'm.' } }, { done: false, message: { content: 'Look:' } },
    { done: false, message: { content: '', tool_calls: calls } },
    { ...facts, message: { role: 'assistant', content: '' } }
  ])
  t.match((await post('/ollama/api/chat', { ...body, stream: false })).json(),
    { ...facts, model: MODEL, message: { content: 'Look:', thinking: 'Hm.', tool_calls: calls } })
})

t.test('a prompt, in lines and whole, framed and raw', async (t) => {
  const { post, asked } = await startChat(t)
  t.match(lines((await post('/ollama/api/generate', generate)).body),
    [{ response: 'Hello', done: false }, { response: ' there.', done: false }, { ...facts, response: '' }])
  t.match((await post('/ollama/api/generate', { ...generate, stream: false, raw: true })).json(),
    { ...facts, response: 'Hello there.' })
  t.match(asked.tasks, [{ kind: 'chat' }, { kind: 'completion', payload: { prompt: 'Hi' } }])
})

t.test('failures', async (t) => {
  const { post } = await startChat(t, { open: async function * () {
    yield admitted()
    yield delta('Hel')
    throw kernelError('instance_lost')
  } })
  const stream = await post('/ollama/api/chat', hello)
  t.match(lines(stream.body), [{ message: { content: 'Hel' } }, { error: String, reason: 'instance_lost' }])
  t.equal((await post('/ollama/api/chat', { ...hello, model: 'acme/none' })).statusCode, 404)
})

t.test('what there is', async (t) => {
  const { rig, post } = await startChat(t, { config: { model_aliases: { small: MODEL } } })
  const get = async (path: string) => (await rig.inject({ url: `/ollama/api/${path}` })).json() as object
  const details = { format: 'onnx', family: 'llama' }
  const name = `${MODEL}:latest`
  const model = { name, model: name, size: 1234, digest: /^[0-9a-f]{64}$/, details }
  t.match(await get('tags'), { models: [model] })
  t.match(await get('ps'), { models: [{ ...model, expires_at: String }] })
  t.same(await get('version'), { version: '0.0.0' })
  const shown = { details: { quantization_level: 'q4' }, capabilities: ['completion', 'tools'],
    model_info: { 'general.architecture': 'llama', 'llama.context_length': 128 } }
  t.match((await post('/ollama/api/show', { model: 'small' })).json(), shown)
  t.match((await post('/ollama/api/show', { name })).json(), shown)
  t.equal((await post('/ollama/api/show', { model: 'acme/none' })).statusCode, 404)
  t.equal((await post('/ollama/api/show', {})).statusCode, 400)
})
