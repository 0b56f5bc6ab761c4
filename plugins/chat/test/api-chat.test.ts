import t from 'tap'
import { EngineError, kernelError, SvcError } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import {
  admitted, delta, done, gate, hello, MODEL, saying, startChat, until, values, type Open
} from './api-kit.js'

const URL_ = '/v1/chat/completions'
const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/

t.test('the heads of a whole answer and of a stream', async (t) => {
  const { post } = await startChat(t)
  for (const [n, type] of ['application/json; charset=utf-8', 'text/event-stream'].entries()) {
    const { headers, body } = await post(URL_, { ...hello, stream: n === 1 })
    t.match(headers, { 'content-type': type, 'cache-control': 'no-store', 'x-accel-buffering': 'no',
      'x-svc-task-id': `task-${n + 1}`, 'x-svc-command-id': UUID })
    t.ok(body.includes(`"id":"${String(headers['x-svc-command-id'])}"`))
  }
})

t.test('an engine that does not say that it took the request in', async (t) => {
  const { post } = await startChat(t, { open: async function * () { yield delta('Hi'); yield done() } })
  t.match((await post(URL_, hello)).json(), { choices: [{ message: { content: 'Hi' } }] })
  t.match((await post(URL_, { ...hello, stream: true })).body, /^: keep-alive\n\n: command_id .*"Hi"/s)
})

/** OpenAI's codes that differ from svc's reasons. */
const CODES: Readonly<Record<string, string>> = {
  overloaded: 'rate_limit_exceeded', no_instance: 'model_not_found', invalid_request: 'invalid_value'
}

t.test('refusals are ordinary error bodies, also for a stream', async (t) => {
  const over = (): never => {
    const message = 'context_length_exceeded: the prompt has 200 tokens'
    throw new EngineError('context_length_exceeded', message, { prompt_tokens: 200, context_length: 128 })
  }
  const bias = (): never => {
    const message = 'logit_bias maps token ids below 64'
    throw new EngineError('invalid_request', message, { issues: [{ path: 'logit_bias', message }] })
  }
  const loading = (): never => {
    const decl = { status: 503, retryable: true, message: 'x', remedy: 'y', retryAfterSeconds: 1 }
    throw new SvcError('no_instance', decl, 'acme/writer is loading')
  }
  const broken = (): never => {
    const decl = { status: 503, retryable: false, message: 'x', remedy: 'y' }
    throw new SvcError('no_instance', decl, 'acme/writer was given up')
  }
  const rows: [() => void, object, number, string, string | RegExp][] = [
    [over, hello, 400, 'context_length_exceeded', /^context_length_exceeded/],
    [bias, hello, 400, 'invalid_request', /^logit_bias maps/],
    [() => { throw new EngineError('unheard_of', 'secret') }, hello, 502, 'provider_error', /node's log/],
    [loading, hello, 503, 'no_instance', /is loading/],
    [broken, hello, 503, 'no_instance', /was given up/],
    [() => { throw kernelError('overloaded') }, hello, 429, 'overloaded', /Too many/],
    [() => {}, { ...hello, model: 'a/none' }, 404, 'no_instance', /No instance found for model a\/none/],
    [() => {}, { ...hello, messages: [] }, 400, 'invalid_request', /messages/],
    [() => {}, { ...hello, max_tokens: 0 }, 400, 'invalid_request', /max_tokens/],
    [() => {}, { ...hello, n: 9 }, 400, 'invalid_request', /n is 9; at most 8/]
  ]
  for (const [fail, body, status, reason, message] of rows) {
    const { post } = await startChat(t, { open: async function * () { fail(); yield admitted() } })
    for (const stream of [false, true]) {
      const answer = await post(URL_, { ...body, stream })
      t.equal(answer.statusCode, status, answer.body)
      const down = fail === broken ? 'server_error' : 'model_loading'
      const code = status === 503 ? down : CODES[reason] ?? reason
      t.match(answer.json(), { error: { reason, message, code }, detail: message })
      if (status === 429) t.ok(answer.headers['retry-after'])
      const told = status === 502 || fail === broken ? 'false' : undefined
      t.equal(answer.headers['x-should-retry'], told, 'official clients repeat a 502 and a 503 unless told')
      if (reason !== 'invalid_request') t.match(answer.headers, { 'x-svc-command-id': UUID })
    }
  }
})

t.test('signs of life in silence, and a wait that outlasts a call\'s deadline', async (t) => {
  const clock = manualClock()
  const held = gate()
  const open: Open = async function * () {
    yield admitted()
    await held.opened
    yield delta('late')
    yield done()
  }
  const { post, asked } = await startChat(t, { clock, open })
  const [stream, whole] = [post(URL_, { ...hello, stream: true }), post(URL_, hello)]
  await until(() => asked.tasks.length === 2)
  for (let second = 0; second < 62; second++) await clock.advance(1000)
  held.open()
  const { body } = await stream
  t.ok(body.split(': keep-alive').length - 1 >= 6, body)
  t.match(body, /late.*\[DONE\]/s)
  t.match((await whole).json(), { choices: [{ message: { content: 'late' } }] })
})

t.test('a later failure is one event, and then the end', async (t) => {
  const open: Open = async function * () {
    yield admitted()
    yield delta('Hel')
    throw kernelError('instance_lost', 'The instance was lost.')
  }
  const { post } = await startChat(t, { open })
  const stream = await post(URL_, { ...hello, stream: true }, { 'x-svc-retry': '1' })
  t.equal(stream.statusCode, 200)
  const all = values(stream.body)
  t.match(all.at(-1), {
    error: { reason: 'instance_lost', retryable: true, requestId: String }, detail: String
  })
  t.notMatch(stream.body, /DONE|generation_stats/)
  const whole = await post(URL_, hello)
  t.equal(whole.statusCode, 500)
  t.match(whole.json(), { error: { reason: 'instance_lost', retryable: true } })
})

t.test('a lost answer is made again elsewhere where the client wants it', async (t) => {
  const open: Open = async function * (_task, _signal, instanceId) {
    yield admitted()
    yield delta(`from ${instanceId}`)
    if (instanceId === 'i1') throw kernelError('instance_lost')
    yield done()
  }
  const { post, asked } = await startChat(t, { open })
  const answer = await post(URL_, hello, { 'x-svc-retry': '1' })
  t.equal(answer.statusCode, 200, answer.body)
  t.match(answer.json(), { choices: [{ message: { content: 'from i2' } }] })
  t.match(answer.headers, { 'x-svc-retried': '1', 'x-svc-task-id': 'task-2' })
  t.same(asked.excepted, [undefined, 'i1'])
})

t.test('a stream whose instance is lost before it began is made elsewhere too', async (t) => {
  const open: Open = async function * (task, signal, instanceId) {
    if (instanceId === 'i1') throw kernelError('instance_lost')
    yield * saying('Hello')(task, signal, instanceId)
  }
  const { post } = await startChat(t, { open })
  const answer = await post(URL_, { ...hello, stream: true }, { 'x-svc-retry': '1' })
  t.match(answer.headers, { 'x-svc-retried': '1', 'x-svc-task-id': 'task-2' })
  t.match(answer.body, /Hello.*\[DONE\]/s)
  const plain = await startChat(t, { open })
  t.equal((await plain.post(URL_, { ...hello, stream: true })).statusCode, 500, 'only where it is wanted')
})

t.test('a cancelled stream ends with an event', async (t) => {
  const open: Open = async function * (_task, signal) {
    yield admitted()
    await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
  }
  const { rig, asked } = await startChat(t, { open })
  const answer = await fetch(`${await rig.listen()}${URL_}`, {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...hello, stream: true })
  })
  const commandId = answer.headers.get('x-svc-command-id') ?? ''
  const commands = rig.kernel.service('kernel.commands') as { cancel (id: string, caller: object): boolean }
  const caller = { id: 'operator', mode: 'direct', authorities: new Set(['cluster:write']) }
  t.ok(commands.cancel(commandId, caller))
  t.match(values(await answer.text()).at(-1), { error: { reason: 'cancelled', requestId: String } })
  t.equal(asked.aborted, 1)
})

t.test('a slow reader ends only its own stream', async (t) => {
  const clock = manualClock()
  let made = 0
  const open: Open = async function * (task) {
    yield admitted()
    const endless = JSON.stringify(task.payload['messages']).includes('endless')
    for (; endless; made++) yield delta('x'.repeat(16_384))
    yield delta('short')
    yield done()
  }
  const { rig, post, asked } = await startChat(t, { clock, open })
  const url = `${await rig.listen()}${URL_}`
  const messages = [{ role: 'user', content: 'endless' }]
  const body = JSON.stringify({ model: MODEL, stream: true, messages })
  const slow = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  let seen = -1
  await until(() => { const still = seen === made && made > 10; seen = made; return still })
  t.match((await post(URL_, hello)).json(), { choices: [{ message: { content: 'short' } }] })
  for (let second = 0; second < 90 && asked.aborted < 2; second++) await clock.advance(1000)
  t.equal(asked.aborted, 2, 'the short answer ended, and the stream was cut')
  await t.rejects(slow.text())
})

t.test('the capability gives the same chunks', async (t) => {
  const { rig, post } = await startChat(t, { config: { model_aliases: { small: MODEL } } })
  const listing = await rig.inject({ url: '/v1/capabilities' })
  const { revisions } = listing.json() as { revisions: Record<string, string> }
  const call = async (payload: object) => await post('/v1/capabilities/stream', {
    capability_id: 'chat', version: '1.0.0', descriptor_revision: revisions['chat@1.0.0'], payload
  }, { accept: 'text/event-stream' })
  const answer = await call({ ...hello, model: 'small' })
  t.match(values(answer.body), [
    { kind: 'started' }, { kind: 'chunk', payload: { choices: [{ delta: { role: 'assistant' } }] } },
    { kind: 'chunk', payload: { choices: [{ delta: { content: 'Hello' } }] } },
    { kind: 'chunk', payload: { choices: [{ delta: { content: ' there.' } }] } },
    { kind: 'chunk', payload: { choices: [{ finish_reason: 'stop' }], usage: { total_tokens: 8 } } },
    { kind: 'completed' }
  ])
  t.match((await call({ ...hello, stream: true })).json(), { error: { reason: 'invalid_payload' } })
})
