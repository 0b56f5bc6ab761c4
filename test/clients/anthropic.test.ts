/** The API as Anthropic's client library uses it. */
import t from 'tap'
import Anthropic from '@anthropic-ai/sdk'
import { failure } from '../../plugins/chat/test/api-kit.js'
import { MODEL, QUESTION, report, startRecorded, withoutClients } from './kit.js'
import type { Expected } from '../real/recorder.js'

const path = '/v1/messages'
const REFUSED: Expected[] = [
  { path, status: 404, sent: /svc\/none/, got: /not_found_error/, why: 'no such model' },
  { path, status: 400, sent: /mcp_servers/, got: /not served/,
    why: 'MCP servers: svc calls none for a client' },
  { path, status: 400, sent: /"temperature":2/, got: /temperature/, why: 'a temperature above 1' }
]

t.test('@anthropic-ai/sdk 1.12.0', { skip: withoutClients }, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 })
  const messages = [{ role: 'user' as const, content: QUESTION }]
  const asked = { model: MODEL, max_tokens: 60, messages, temperature: 0 }

  const ids: string[] = []
  for await (const { id, type } of client.models.list({ limit: 1 })) ids.push(`${type} ${id}`)
  t.ok(ids.includes(`model ${MODEL}`) && ids.length > 1, 'page by page')
  t.match(await client.models.retrieve(MODEL), { type: 'model', id: MODEL, display_name: /guide/ })

  const whole = await client.messages.create(asked)
  t.match(whole.content, [{ type: 'text', text: /svc stop/ }])
  const stream = client.messages.stream(asked)
  const events: string[] = []
  stream.on('streamEvent', ({ type }) => { events.push(type) })
  const { content, usage: { output_tokens: written } } = whole
  t.match(await stream.finalMessage(), { content, usage: { output_tokens: written } })
  t.equal(events[0], 'message_start')
  const counted = await client.messages.countTokens({ model: MODEL, messages })
  const { usage: { input_tokens: fed, cache_read_input_tokens: cached } } = whole
  t.equal(counted.input_tokens, fed + (cached ?? 0), 'as the answer counts it')

  const properties = { a: { enum: ['x', 'y'] } }
  const schema = { type: 'object', properties, required: ['a'], additionalProperties: false }
  const formed = await client.messages.create({
    ...asked, output_config: { format: { type: 'json_schema', schema } }
  })
  const [block] = formed.content
  t.match(JSON.parse(block?.type === 'text' ? block.text : ''), { a: /^[xy]$/ }, 'the format is kept to')

  const thread = client.beta.messages.thread({ model: MODEL, max_tokens: 20 })
  const first = await thread.send({ role: 'user', content: QUESTION })
  const second = await thread.send({ role: 'user', content: 'and a node' })
  t.ok(second.usage.input_tokens + (second.usage.cache_read_input_tokens ?? 0) >
    first.usage.input_tokens + (first.usage.cache_read_input_tokens ?? 0), 'it knows what was before')

  const refused: [object, number, string, RegExp][] = [
    [{ model: 'svc/none' }, 404, 'not_found_error', /svc\/none/],
    [{ mcp_servers: [{ name: 'x' }] }, 400, 'invalid_request_error', /mcp_servers are not served/],
    [{ temperature: 2 }, 400, 'invalid_request_error', /temperature/]
  ]
  for (const [more, status, type, message] of refused) {
    t.match(await failure(client.messages.create({ ...asked, ...more })),
      { status, message, error: { type: 'error', error: { type } }, requestID: /^[0-9a-f-]{36}$/ })
  }
  report(t, {
    client: 'anthropic (JavaScript)', packages: ['@anthropic-ai/sdk'],
    set: "`baseURL: 'URL'`, `apiKey: 'none'`",
    works: ['models', 'messages', 'stream', 'count of tokens', 'structured output', 'threads']
  }, exchanges, REFUSED)
})
