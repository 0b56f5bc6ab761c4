import t from 'tap'
import { EngineError } from '../../../kernel/api/engine.js'
import { kernelError, SvcError } from '../../../kernel/api/errors.js'
import { ask, bench, caller, declaration, errorOf, gate, like, NODE, probe,
  until } from './kit.js'
import type { Bench, View } from './kit.js'

const sum = async (input: { n?: number }): Promise<{ sum: number }> => ({ sum: (input.n ?? 0) + 1 })

t.test('a unary call', async (t) => {
  const b = bench()
  const body = probe(b, 'unary', async (input: { n: number }, call: View) => {
    call.setHeader('x-svc-task-id', 'task-1')
    t.equal(call.caller.id, 'ann')
    return await sum(input)
  })
  const answer = await ask(b, 'call',
    { ...body, call_id: 'mine', target_node: NODE.installId, payload: { n: 4 } }).answer
  t.equal(answer!.status, 200)
  t.same(answer!.body, { call_id: 'mine', ok: true, result: { sum: 5 } })
  t.match(answer!.headers, { 'x-svc-task-id': 'task-1', 'x-svc-command-id': /^[0-9a-f-]{36}$/ })
  t.match(b.outcomes, [{ callId: 'mine', kind: 'completed', reason: null, capability: 'probe-unary@1.0.0',
    callerId: 'ann' }])
  t.equal(b.commands.open + b.capabilities.invoker.calls.size, 0)
})

t.test('guards answer in their order', async (t) => {
  const b = bench({ limits: { payloadBytes: 1000 } })
  const body = probe(b, 'unary', sum)
  const big = { x: 'x'.repeat(2000) }
  const wrong: [string, Record<string, unknown>, string, number][] = [
    ['node', { target_node: 'other' }, 'node_not_found', 404],
    ['id', { capability_id: 'nothing' }, 'capability_not_found', 404],
    ['version', { version: '9.0.0' }, 'version_mismatch', 409],
    ['revision', { descriptor_revision: '0'.repeat(16) }, 'revision_mismatch', 409],
    ['size', { payload: big }, 'payload_too_large', 413],
    ['schema', { payload: { n: -1 } }, 'invalid_payload', 400]
  ]
  for (let first = 0; first < wrong.length; first++) {
    const all = Object.assign({}, ...wrong.slice(first).reverse().map(([, change]) => change)) as object
    const request = ask(b, 'call', { ...body, ...all })
    const error = errorOf(request, await request.answer)
    t.same([error.reason, error.status, error.code], [wrong[first]![2], wrong[first]![3], wrong[first]![3]],
      wrong[first]![0])
    t.match((await request.answer)!.headers, { 'x-svc-command-id': /./ },
      'the command id rides on errors too')
  }
  const request = ask(b, 'call', body, { headers: { 'content-length': '1001' } })
  t.equal(errorOf(request, await request.answer).reason, 'payload_too_large', 'the body as it came counts')
})

t.test('a wrong payload names its field', async (t) => {
  const b = bench()
  const input = {
    type: 'object', additionalProperties: false, required: ['text'],
    properties: { text: { type: 'string', minLength: 1 },
      seed: { type: 'integer', minimum: 0, maximum: 4294967295 },
      speed: { type: 'number', exclusiveMinimum: 0 } }
  }
  const body = probe(b, 'unary', async () => ({ sum: 1 }), { input_schema: input })
  const check = async (payload: unknown, field: string | null): Promise<void> => {
    const request = ask(b, 'call', { ...body, payload })
    const answer = await request.answer
    if (field === null) { t.equal(answer!.status, 200, JSON.stringify(payload)); return }
    const error = errorOf(request, answer)
    t.equal(error.reason, 'invalid_payload', JSON.stringify(payload))
    t.equal(error.status, 400)
    t.ok(error.message.startsWith(`${field} `), error.message)
    t.equal((error.details['issues'] as { path: string }[])[0]!.path, field === 'payload' ? '' : field)
    t.equal(error.param, field)
  }
  await check({ text: 'a' }, null)
  await check({ text: 'a', seed: 0 }, null)
  await check({ text: 'a', seed: 4294967295, speed: 0.001 }, null)
  await check({ text: 'a', seed: 4294967296 }, 'seed')
  await check({ text: 'a', seed: 1.5 }, 'seed')
  await check({ text: 'a', seed: '1' }, 'seed')
  await check({ text: 'a', speed: 0 }, 'speed')
  await check({ text: '' }, 'text')
  await check({ text: 5 }, 'text')
  await check({ text: ['a'] }, 'text')
  await check({}, 'text')
  await check({ text: 'a', extra: 1 }, 'extra')
  await check('text', 'payload')
  await check(null, 'payload')
  await check([], 'payload')
})

t.test('admission comes before size and schema', async (t) => {
  const b = bench({ limits: { concurrency: 1, queue: 0 } })
  const { opened, open } = gate()
  const body = probe(b, 'unary', async () => { await opened; return { sum: 1 } })
  const running = ask(b, 'call', body)
  const refused = ask(b, 'call', { ...body, payload: { n: -1 } })
  const answer = await refused.answer
  t.equal(errorOf(refused, answer).reason, 'overloaded')
  t.equal(answer!.status, 429)
  t.equal(answer!.headers['retry-after'], '1')
  open()
  t.equal((await running.answer)!.status, 200)
  const after = ask(b, 'call', { ...body, payload: { n: -1 } })
  t.equal(errorOf(after, await after.answer).reason, 'invalid_payload')
  t.equal((await ask(b, 'call', body).answer)!.status, 200, 'a refused payload gives its slot back')
})

t.test('results are checked', async (t) => {
  const self: Record<string, unknown> = { sum: 1 }
  self['self'] = self
  const check = async (result: unknown, schema: object | null, expected: string | null): Promise<void> => {
    const b = bench()
    const body = probe(b, 'unary', async () => result, { output_schema: schema as never })
    const request = ask(b, 'call', body)
    const answer = await request.answer
    if (expected === null) { t.equal(answer!.status, 200); return }
    t.same([errorOf(request, answer).reason, answer!.status], [expected, 502])
    t.match(b.logged, [{ level: 'error', fields: { requestId: 'request-1' } }])
  }
  const schema = declaration('unary').output_schema!
  await check({ sum: 1 }, schema, null)
  await check({ sum: 'x' }, schema, 'invalid_result')
  await check(undefined, schema, 'invalid_result')
  await check(undefined, null, null)
  await check({ sum: 1n }, null, 'invalid_result')
  await check(self, null, 'invalid_result')
})

t.test('what a handler throws', async (t) => {
  const own = new SvcError('no_speech', { status: 422, retryable: false, message: 'x', remedy: 'Say more.' },
    'Nothing to say.')
  const check = async (thrown: unknown, expected: object, logs: number): Promise<void> => {
    const b = bench({
      errorDecl: (reason) => reason === 'voice_unknown'
        ? { status: 400, retryable: false, message: 'x', remedy: 'Pick one.' } : undefined
    })
    const body = probe(b, 'unary', () => { throw thrown })
    const request = ask(b, 'call', body)
    const answer = await request.answer
    const error = errorOf(request, answer)
    t.match({ ...error, status: answer!.status }, expected)
    t.notMatch(JSON.stringify(answer), 'secret')
    t.equal(b.logged.filter((l) => l.level === 'error').length, logs)
    if (logs > 0) t.match(b.logged.find((l) => l.level === 'error')!.fields,
      { requestId: 'request-1', plugin: 'probes', err: thrown })
  }
  await check(own, { status: 422, reason: 'no_speech', message: 'Nothing to say.',
    details: { remedy: 'Say more.' } }, 0)
  await check(kernelError('no_instance'), { status: 404, reason: 'no_instance' }, 0)
  await check(kernelError('wrong_task'), { status: 400, reason: 'wrong_task' }, 0)
  await check(kernelError('instance_lost'), { status: 500, reason: 'instance_lost', retryable: true }, 0)
  await check(new EngineError('constructor', 'No reason.'), { status: 502, reason: 'provider_error' }, 1)
  await check(new EngineError('voice_unknown', 'No voice x.', { param: 'voice' }),
    { status: 400, reason: 'voice_unknown', param: 'voice' }, 0)
  await check(new EngineError('instance_lost', 'Gone.'),
    { status: 500, reason: 'instance_lost', message: 'Gone.' }, 0)
  await check(new EngineError('never_heard', 'secret'), { status: 502, reason: 'provider_error' }, 1)
  await check(new Error('secret path /home/x'), { status: 502, reason: 'provider_error' }, 1)
  await check('secret', { status: 502, reason: 'provider_error' }, 1)
  await check(undefined, { status: 502, reason: 'provider_error' }, 1)
})

t.test('headers a handler may set', async (t) => {
  const check = async (name: string, value: string, reason: string | null): Promise<void> => {
    const b = bench()
    const body = probe(b, 'unary',
      async (_: unknown, call: View) => { call.setHeader(name, value); return { sum: 1 } })
    const request = ask(b, 'call', body)
    const answer = await request.answer
    if (reason === null) t.equal(answer!.headers[name.toLowerCase()], value)
    else t.equal(errorOf(request, answer).reason, reason, name)
  }
  await check('X-Svc-Task-Id', 'abc', null)
  await check('content-type', 'text/html', 'provider_error')
  await check('x-odd', 'a\r\nset-cookie: ü', null)
})

const endings: [string, (b: Bench, r: ReturnType<typeof ask>) => unknown, string, number][] = [
  ['cancel', (b) => b.capabilities.invoker.calls.cancel('c1', caller()), 'cancelled', 499],
  ['client gone', (_, r) => { r.leave() }, 'cancelled', 499],
  ['timeout', async (b) => { await b.clock.advance(2000) }, 'timeout', 504],
  ['session change', (b) => { b.commands.abortAll('session_changed') }, 'session_changed', 503],
  ['shutdown', (b) => { void b.capabilities.close() }, 'shutting_down', 503]
]

t.test('every ending, while running and while queued', async (t) => {
  for (const [name, end, reason, status] of endings) {
    const b = bench({ limits: { concurrency: 1 } })
    let seen: unknown = null
    const body = probe(b, 'unary', async (_: unknown, call: View) => await new Promise((_resolve, reject) => {
      seen = undefined
      call.signal.addEventListener('abort',
        () => { seen = call.signal.reason; reject(call.signal.reason as Error) })
    }))
    const running = ask(b, 'call', { ...body, call_id: 'c1', timeout_seconds: 2 })
    await until(() => seen === undefined)
    await end(b, running)
    const answer = await running.answer
    t.same([errorOf(running, answer).reason, answer!.status], [reason, status], `${name} while running`)
    t.equal((seen as SvcError).reason, reason, 'the handler hears it')

    const q = bench({ limits: { concurrency: 1 } })
    const { opened, open } = gate()
    let started = 0
    const slow = probe(q, 'unary', async () => { started++; await opened; return { sum: 1 } })
    const front = ask(q, 'call', { ...slow, call_id: 'front', timeout_seconds: 100 },
      { caller: caller('front') })
    await until(() => started === 1)
    const queued = ask(q, 'call', { ...slow, call_id: 'c1', timeout_seconds: 2 })
    await until(() => q.capabilities.invoker.calls.size === 2)
    await end(q, queued)
    const late = await queued.answer
    t.same([errorOf(queued, late).reason, late!.status], [reason, status], `${name} while queued`)
    open()
    await front.answer
    t.equal(started, 1, 'the queued handler never ran')
    t.equal(q.capabilities.invoker.calls.size + q.commands.open, 0)
  }
})

t.test('a handler that ignores its abort', async (t) => {
  const b = bench({ limits: { concurrency: 1 } })
  const { opened, open } = gate()
  let started = 0
  const body = probe(b, 'unary', async () => { started++; await opened; return { sum: 1 } })
  const first = ask(b, 'call', { ...body, call_id: 'c1' })
  await until(() => started === 1)
  b.capabilities.invoker.calls.cancel('c1', caller())
  t.equal((await first.answer)!.status, 499, 'the caller need not wait for it')
  const second = ask(b, 'call', body)
  await until(() => b.capabilities.invoker.calls.size === 1)
  let done = false
  void second.answer.then(() => { done = true })
  await b.clock.advance(999)
  t.equal(b.logged.filter((l) => l.level === 'warn').length, 0)
  await b.clock.advance(1)
  t.match(b.logged.find((l) => l.level === 'warn')!.message, /is still running 1000 ms after/)
  open()
  await until(() => done)
  t.equal((await second.answer)!.status, 200, 'its slot was given away')
})

t.test('call ids', async (t) => {
  const b = bench()
  const { opened, open } = gate()
  const body = probe(b, 'unary', async () => { await opened; return { sum: 1 } })
  const first = ask(b, 'call', { ...body, call_id: 'same' })
  const again = ask(b, 'call', { ...body, call_id: 'same' })
  const error = errorOf(again, await again.answer)
  t.match(error, { reason: 'invalid_request', param: 'call_id' })
  const other = ask(b, 'call', { ...body, call_id: 'same' }, { caller: caller('bob') })
  t.equal(b.capabilities.invoker.calls.size, 2, 'another caller may use it')
  open()
  t.equal((await first.answer)!.status, 200)
  t.equal((await other.answer)!.status, 200)
  t.equal((await ask(b, 'call', { ...body, call_id: 'same' }).answer)!.status, 200, 'free again')
})

t.test('cancelling', async (t) => {
  const b = bench()
  const hang = async (_: unknown, call: View): Promise<never> => await new Promise((_resolve, reject) => {
    call.signal.addEventListener('abort', () => { reject(call.signal.reason as Error) })
  })
  const body = probe(b, 'unary', hang)
  const running = ask(b, 'call', { ...body, call_id: 'c1' })
  await until(() => b.capabilities.invoker.calls.size === 1)
  const cancel = async (id: string, who = caller()): Promise<unknown> =>
    (await ask(b, 'cancel', { call_id: id }, { caller: who }).answer)!.body
  t.same(await cancel('unknown'), { cancelled: false })
  await t.rejects(cancel('c1', caller('bob')), like({ reason: 'missing_grant', status: 403 }))
  t.equal(b.capabilities.invoker.calls.size, 1)
  t.same(await cancel('c1', caller('op', 'cluster:write')), { cancelled: true })
  t.equal((await running.answer)!.status, 499)
  t.same(await cancel('c1'), { cancelled: false })
})

t.test('the wrong route names the right one', async (t) => {
  const b = bench()
  const check = async (io: 'unary' | 'server_streaming' | 'client_streaming' | 'bidirectional',
    route: 'call' | 'stream', right: string): Promise<void> => {
    const body = probe(b, io, async () => ({ sum: 1 }), { id: `${io}-${route}`.replaceAll('_', '-') })
    const request = ask(b, route, body)
    const error = errorOf(request, await request.answer)
    t.match(error, { reason: 'invalid_request', status: 400, details: { route: right } })
    t.ok(error.message.includes(right))
  }
  await check('server_streaming', 'call', '/v1/capabilities/stream')
  await check('client_streaming', 'call', '/v1/capabilities/session')
  await check('bidirectional', 'call', '/v1/capabilities/session')
  await check('unary', 'stream', '/v1/capabilities/call')
  await check('client_streaming', 'stream', '/v1/capabilities/session')
  await check('bidirectional', 'stream', '/v1/capabilities/session')
})

t.test('the listing', async (t) => {
  const b = bench()
  probe(b, 'unary', sum)
  for (const query of [{}, { node_id: 'local' }, { node_id: NODE.nodeId }, { node_id: NODE.installId }]) {
    t.equal((await ask(b, 'list', undefined, { query }).answer)!.body, b.capabilities.registry.list())
  }
  await t.rejects(ask(b, 'list', undefined, { query: { node_id: 'x' } }).answer,
    like({ reason: 'node_not_found', status: 404 }))
})

t.test('a node that stops ends its calls and refuses new ones', async (t) => {
  const b = bench()
  const { opened, open } = gate()
  const body = probe(b, 'unary', async () => { await opened; return { sum: 1 } })
  const running = ask(b, 'call', body)
  const closing = b.capabilities.close()
  const refused = ask(b, 'call', body)
  for (const request of [running, refused]) {
    t.match(errorOf(request, await request.answer), { reason: 'shutting_down', code: 503 })
  }
  t.equal(b.outcomes.length, 1, 'the second was never open')
  open()
  await closing
})
