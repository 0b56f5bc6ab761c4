/** Schemas and tools of requests on their way to the engine: what the head of the answer says of them. */
import t from 'tap'
import { hello, saying, startChat } from './api-kit.js'

const schema = { type: 'object', properties: { tags: { type: 'array', uniqueItems: true } } }
const format = (more: object = {}): object =>
  ({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema, ...more } } })
const HEADER = 'x-svc-warning'

t.test('what is not enforced is named in the head, whole and as a stream', async (t) => {
  const { post, asked } = await startChat(t)
  const place = 'response_format.json_schema.schema/properties/tags/uniqueItems'
  for (const stream of [false, true]) {
    const answer = await post('/v1/chat/completions', { ...hello, ...format(), stream })
    t.equal(answer.statusCode, 200)
    t.equal(answer.headers[HEADER], `not enforced: ${place}`)
  }
  t.same(asked.tasks[0]?.payload['response_format'], { type: 'json_schema', json_schema: { schema } })
  const strict = await post('/v1/chat/completions', { ...hello, ...format({ strict: true }) })
  t.equal(strict.headers[HEADER], undefined, 'the engine refuses it')
  t.match(asked.tasks.at(-1)?.payload, { response_format: { json_schema: { strict: true } } })
  const plain = await post('/v1/chat/completions', hello)
  t.equal(plain.headers[HEADER], undefined)
  const ollama = await post('/ollama/api/chat', { ...hello, format: schema, stream: false })
  t.match(ollama.headers[HEADER], /uniqueItems/)
  const responses = await post('/v1/responses', { model: hello.model, input: 'Hi',
    text: { format: { type: 'json_schema', name: 'x', schema, strict: true } } })
  t.equal(responses.headers[HEADER], undefined)
  t.match(asked.tasks.at(-1)?.payload, { response_format: { json_schema: { strict: true } } })
})

t.test('many places, and names outside of ASCII', async (t) => {
  const { post } = await startChat(t)
  const names = Array.from({ length: 20 }, (_, i) => `ü${i}`)
  const properties = Object.fromEntries(names.map((name) => [name, { uniqueItems: true }]))
  const body = { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties } } }
  const answer = await post('/v1/chat/completions', { ...hello, response_format: body })
  t.match(answer.headers[HEADER], /^not enforced: \S+\/\?0\/uniqueItems, .* and 12 more$/)
})

t.test('what is not enforced of tools, and what the engine leaves out', async (t) => {
  const { post } = await startChat(t, { open: async function * () {
    yield { payload: { choices: [], warnings: ['tools: not offered', 'x: unknown'] } }
    yield * saying('Hello')({ kind: 'chat', payload: {} }, new AbortController().signal, '')
  } })
  const parameters = { type: 'object', properties: { n: { type: 'integer' }, s: { type: 'string' } }, if: {} }
  const tool = { type: 'function', function: { name: 'f', parameters } }
  for (const stream of [false, true]) {
    const answer = await post('/v1/chat/completions', { ...hello, tools: [tool], stream })
    t.equal(answer.headers[HEADER],
      'not enforced: tools.0.function.parameters/if; tools: not offered; x: unknown')
    t.match(answer.body, /Hello/)
  }
})

t.test('tools and a response format together reach the engine', async (t) => {
  const { post, asked } = await startChat(t, { open: saying('{}') })
  const tool = { type: 'function', function: { name: 'f' } }
  const answer = await post('/v1/chat/completions', { ...hello, tools: [tool], ...format() })
  t.equal(answer.statusCode, 200, answer.body)
  t.match(asked.tasks[0]?.payload, { tools: [tool], response_format: { type: 'json_schema' } })
})
