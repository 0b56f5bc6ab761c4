/** Complements cases.test.ts: images, bounds, and engine failures. */
import t from 'tap'
import { EngineError } from '../../../kernel/index.js'
import { fromAnthropic } from '../api/anthropic.js'
import { asRequestError, deeperThan, type Limits } from '../api/errors.js'
import { chatTask } from '../api/request-to-task.js'
import { hello, png, startChat } from './api-kit.js'
import type { MessagesBody } from '../api/anthropic-body.js'

const rules = {
  limits: { max_messages: 4 } as Limits, aliases: {}, readsImages: (modelId: string) => modelId === 'a/eyes'
}
const url = `data:image/png;base64,${png(2, 1)}`
const message = { ...hello, max_tokens: 50 }

t.test('images reach a model that reads them', (t) => {
  const of = (url: unknown): object => {
    const parts = [{ type: 'text', text: 'What is it?' }, { type: 'image_url', image_url: { url } }]
    return { model: 'a/eyes', messages: [{ role: 'user', content: parts }] }
  }
  t.match(chatTask(of(url) as never, rules).task.payload['messages'], [{ role: 'user', content: [
    { type: 'text', text: 'What is it?' }, { type: 'image_url', image_url: { url } }
  ] }])
  const large = Buffer.from(png(2, 1), 'base64')
  large.writeUInt32BE(65536, 16)
  large.writeUInt32BE(65536, 20)
  const rows: [unknown, RegExp][] = [
    ['https://10.0.0.1/x.png', /is a network URL, which svc does not fetch/],
    ['file:///etc/passwd', /is a network URL/],
    ['data:image/svg+xml;base64,AAAA', /must be a png/], ['data:image/png;base64,%%', /must be a png/],
    ['data:text/plain,hello', /must be a png/], ['data:image/png;base64,iVBORw0KGgo=', /must be a png/],
    [`data:image/png;base64,${large.toString('base64')}`, /has 65536 x 65536 pixels; at most 33554432 are/],
    [7, /must be a string/]
  ]
  for (const [given, message] of rows) {
    t.throws(() => chatTask(of(given) as never, rules), { reason: 'invalid_request', message,
      details: { param: /^messages\.0\.content\.1\.image_url/ } })
  }
  t.end()
})

t.test('images in messages of Anthropic', (t) => {
  const of = (more: object) => fromAnthropic({ ...message, ...more } as MessagesBody, rules)
  const image = (source: object): object =>
    ({ model: 'a/eyes', system: 'x', messages: [{ role: 'user', content: [{ type: 'image', source }] }] })
  t.match(of(image({ type: 'base64', media_type: 'image/jpeg', data: png(2, 1) })).messages[1],
    { role: 'user', content: [{ type: 'image_url', image_url: { url } }] })
  t.throws(() => of(image({ type: 'url', url: 'https://a.example/x.png' })),
    { details: { param: 'messages.0.content.0.source' }, message: /is a network URL/ })
  t.throws(() => of(image({ type: 'file', file_id: 'f' })),
    { details: { param: 'messages.0.content.0.source.url' }, message: /must be a string/ })
  t.throws(() => of({ ...image({}), model: 'a/blind' }),
    { details: { param: 'messages.0.content.0' }, message: /a\/blind reads text only/ })
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

t.test('the query that clients of the beta send', async (t) => {
  const { post } = await startChat(t)
  t.equal((await post('/v1/messages?beta=true', message)).statusCode, 200)
  t.match((await post('/v1/messages?bta=true', message)).json(),
    { error: { message: /bta is not a known field/ } })
})

t.test('refusals and failures', async (t) => {
  const long = await startChat(t, { open: async function * () {
    throw new EngineError('context_length_exceeded', 'no', { prompt_tokens: 200, context_length: 128 })
  } })
  t.match((await long.post('/v1/messages', message)).json(),
    { error: { type: 'invalid_request_error', message: 'prompt is too long: 200 tokens > 128 maximum' } })
  const rows: [object, number, RegExp][] = [
    [{ ...message, max_tokens: 0 }, 400, /max_tokens/],
    [{ ...message, messages: [] }, 400, /messages/],
    [{ ...message, messages: [{ role: 'tool', content: 'x' }] }, 400, /role/],
    [{ ...message, model: 'acme/none' }, 404, /no_instance/]
  ]
  for (const [given, status, expect] of rows) {
    const answer = await long.post('/v1/messages', given)
    t.equal(answer.statusCode, status)
    t.match(answer.body, expect)
  }
})
