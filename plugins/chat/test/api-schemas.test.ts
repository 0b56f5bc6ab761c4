/** Tests which parts of schemas and tools the header `x-svc-warning` reports as ignored. */
import t from 'tap'
import { hello, saying, startChat } from './api-kit.js'

const schema = { type: 'object', properties: { tags: { type: 'array', uniqueItems: true } } }
const format = (more: object = {}): object =>
  ({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema, ...more } } })
const HEADER = 'x-svc-warning'

t.test('schemas reach the engine as they are', async (t) => {
  const { post, asked } = await startChat(t)
  for (const stream of [false, true]) {
    const answer = await post('/v1/chat/completions', { ...hello, ...format(), stream })
    t.equal(answer.statusCode, 200)
    t.equal(answer.headers[HEADER], undefined)
  }
  t.same(asked.tasks[0]?.payload['response_format'], { type: 'json_schema', json_schema: { schema } })
  await post('/v1/chat/completions', { ...hello, ...format({ strict: true }) })
  t.match(asked.tasks.at(-1)?.payload, { response_format: { json_schema: { strict: true } } })
  await post('/v1/responses', { model: hello.model, input: 'Hi',
    text: { format: { type: 'json_schema', name: 'x', schema, strict: true } } })
  t.match(asked.tasks.at(-1)?.payload, { response_format: { json_schema: { strict: true } } })
})

t.test('what the engine leaves out is named in the head, whole and as a stream', async (t) => {
  const { post } = await startChat(t, { open: async function * () {
    yield { payload: { choices: [], warnings: ['tools: not offered', 'ü: unknown'] } }
    yield * saying('Hello')({ kind: 'chat', payload: {} }, new AbortController().signal, '')
  } })
  for (const stream of [false, true]) {
    const answer = await post('/v1/chat/completions', { ...hello, stream })
    t.equal(answer.headers[HEADER], 'tools: not offered; ?: unknown')
    t.match(answer.body, /Hello/)
  }
  const ollama = await post('/ollama/api/chat', { ...hello, format: schema, stream: false })
  t.match(ollama.headers[HEADER], /not offered/)
})

t.test('tools and a response format together reach the engine', async (t) => {
  const { post, asked } = await startChat(t, { open: saying('{}') })
  const tool = { type: 'function', function: { name: 'f' } }
  const answer = await post('/v1/chat/completions', { ...hello, tools: [tool], ...format() })
  t.equal(answer.statusCode, 200, answer.body)
  t.match(asked.tasks[0]?.payload, { tools: [tool], response_format: { type: 'json_schema' } })
})
