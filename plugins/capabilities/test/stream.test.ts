import t from 'tap'
import { kernelError } from '../../../kernel/api/errors.js'
import { ask, bench, caller, errorOf, gate, piece, probe, settle,
  until } from './kit.js'
import type { Bench, Piece, Request, Source, View } from './kit.js'

const words = async (request: Request): Promise<string[]> =>
  (await request.reader.frames()).map((f) => `${f.kind} ${f.sequence}`)
const media = { media_type: 'audio/mpeg' }

t.test('a stream of frames', async (t) => {
  const b = bench()
  const body = probe(b, 'server_streaming', async function * (_: unknown, call: View): AsyncGenerator<Piece> {
    call.setHeader('x-svc-task-id', 'task-1')
    yield piece(0, 10)
    yield piece(1)
    yield piece(2, 0)
  })
  const request = ask(b, 'stream', { ...body, call_id: 'c1' })
  t.equal(await request.answer, null)
  const { reader } = request
  t.equal(reader.status, 200)
  t.equal(reader.contentType, 'application/vnd.svc.frames')
  t.match(reader.headers, { 'x-svc-task-id': 'task-1', 'x-svc-command-id': /.{36}/ })
  const frames = await reader.frames()
  t.same(frames.map((f) => [f.kind, f.sequence, f.media?.byteLength ?? null]),
    [['started', 0, null], ['chunk', 1, 10], ['chunk', 2, null], ['chunk', 3, 0], ['completed', 4, null]])
  t.same(frames[0]!.payload, { command_id: reader.headers['x-svc-command-id'], task_id: 'task-1' })
  t.ok(reader.ended)
  t.match(b.outcomes, [{ kind: 'completed' }])
  t.equal(b.capabilities.invoker.calls.size + b.commands.open, 0)
})

t.test('guards of a stream are ordinary errors', async (t) => {
  const b = bench()
  const body = probe(b, 'server_streaming', async function * () { yield piece(0) })
  const check = async (change: object, accept: string | undefined, reason: string,
    status: number): Promise<void> => {
    const request = ask(b, 'stream', { ...body, ...change }, accept === undefined ? {} : { accept })
    const error = errorOf(request, await request.answer)
    t.same([error.reason, request.reader.status, request.reader.contentType],
      [reason, status, 'application/json; charset=utf-8'])
    t.match(request.reader.headers, { 'x-svc-command-id': /./ })
    t.ok(request.reader.ended)
  }
  await check({ target_node: 'x' }, undefined, 'node_not_found', 404)
  await check({ descriptor_revision: 'x' }, undefined, 'revision_mismatch', 409)
  await check({ payload: { n: 'x' } }, undefined, 'invalid_payload', 400)
  await check({}, 'application/json', 'invalid_request', 400)
  await check({}, 'audio/mpeg', 'invalid_request', 400)
  const request = ask(b, 'stream', body, { accept: 'application/json' })
  t.match(errorOf(request, await request.answer),
    { message: /application\/vnd\.svc\.frames, text\/event-stream/, param: 'accept' })
})

const throwing = (after: number, error: unknown): Source => async function * () {
  for (let i = 0; i < after; i++) yield piece(i, 5)
  throw error
}

t.test('a failure before the first chunk has its own status in every framing', async (t) => {
  const check = async (source: unknown, reason: string, status: number): Promise<void> => {
    for (const accept of ['application/vnd.svc.frames', 'text/event-stream', 'audio/mpeg']) {
      const b = bench()
      const body = probe(b, 'server_streaming', source, { media_type: 'audio/mpeg' })
      const request = ask(b, 'stream', body, { accept })
      const error = errorOf(request, await request.answer)
      t.same([error.reason, request.reader.status], [reason, status], accept)
      t.equal(b.capabilities.invoker.calls.size, 0)
    }
  }
  await check(throwing(0, kernelError('no_instance')), 'no_instance', 404)
  await check(throwing(0, new Error('boom')), 'provider_error', 502)
  await check(() => { throw new Error('boom') }, 'provider_error', 502)
  await check(async () => 5, 'provider_error', 502)
  await check(() => null, 'provider_error', 502)
  await check(async function * () { yield { payload: { i: 'x' } } }, 'invalid_result', 502)
  await check(async function * () { yield undefined }, 'invalid_result', 502)
  await check(async function * () { yield { ...piece(1, 4), media: { bytes: 'abc' } } }, 'invalid_result',
    502)
})

t.test('the head goes out after a second even without a chunk', async (t) => {
  const b = bench()
  const { opened, open } = gate()
  const body = probe(b, 'server_streaming',
    async function * () { await opened; throw kernelError('no_instance') })
  const request = ask(b, 'stream', body)
  await settle()
  await b.clock.advance(999)
  t.notOk(request.reader.opened)
  await b.clock.advance(1)
  t.ok(request.reader.opened)
  open()
  await request.answer
  t.same(await words(request), ['started 0', 'failed 1'])
  t.match((await request.reader.frames())[1]!.error,
    { reason: 'no_instance', code: 404, requestId: 'request-1' })
})

t.test('every end of a stream is one terminal frame', async (t) => {
  const hang = async (call: View): Promise<never> => await new Promise((_resolve, reject) => {
    call.signal.addEventListener('abort', () => { reject(call.signal.reason as Error) })
  })
  const oneThen = (next: (call: View) => Promise<unknown>): Source => async function * (_, call) {
    yield piece(0, 5)
    await next(call)
    yield piece(1, 5)
  }
  const deaf = oneThen(async () => await new Promise(() => {}))
  const check = async (
    name: string, source: Source, end: (b: Bench, r: Request) =>
    unknown, kind: string, reason: string | null, after = 1
  ): Promise<void> => {
    const b = bench()
    const body = probe(b, 'server_streaming', source)
    const request = ask(b, 'stream', { ...body, call_id: 'c1', timeout_seconds: 2 })
    if (reason !== 'provider_error') await until(() => request.reader.received.length > after, name)
    await end(b, request)
    await request.answer
    const frames = await request.reader.frames()
    const chunks = Array.from({ length: after }, (_, i) => `chunk ${i + 1}`)
    t.same(frames.map((f) => `${f.kind} ${f.sequence}`), ['started 0', ...chunks, `${kind} ${after + 1}`],
      name)
    t.equal(frames.at(-1)!.error?.reason ?? null, kind === 'cancelled' ? null : reason, name)
    t.match(b.outcomes, [{ kind, reason }])
    t.ok(request.reader.ended, 'framed streams end cleanly')
    t.equal(b.capabilities.invoker.calls.size + b.commands.open, 0)
  }
  const nothing = (): void => {}
  const cancel = (b: Bench): void => { b.capabilities.invoker.calls.cancel('c1', caller()) }
  await check('throws in the middle', throwing(3, new Error('boom')), nothing, 'failed', 'provider_error', 3)
  await check('cancelled', oneThen(hang), cancel, 'cancelled', 'cancelled')
  await check('client gone', oneThen(hang), (_, r) => { r.leave() }, 'cancelled', 'cancelled')
  await check('times out', oneThen(hang), async (b) => { await b.clock.advance(2000) }, 'failed', 'timeout')
  await check('session changed', oneThen(hang), (b) => { b.commands.abortAll('session_changed') }, 'failed',
    'session_changed')
  await check('node stops', oneThen(hang), async (b) => { await b.capabilities.close() }, 'failed',
    'shutting_down')
  await check('ignores its abort', deaf, cancel, 'cancelled', 'cancelled')
  await check('ignores its deadline', deaf, async (b) => { await b.clock.advance(2000) }, 'failed', 'timeout')
  const yieldsOn = oneThen(async (call) => { await hang(call).catch(() => {}) })
  await check('yields after its abort', yieldsOn, cancel, 'cancelled', 'cancelled')
  await check('breaks its schema', async function * () { yield piece(0, 5); yield { payload: {} } }, nothing,
    'failed', 'invalid_result')
})

t.test('a stream without chunks', async (t) => {
  const b = bench()
  const body = probe(b, 'server_streaming', async function * () { /* empty */ },
    { media_type: 'audio/mpeg' })
  const framed = ask(b, 'stream', body)
  await framed.answer
  t.same(await words(framed), ['started 0', 'completed 1'])
  const raw = ask(b, 'stream', body, { accept: 'audio/mpeg' })
  await raw.answer
  t.same([raw.reader.status, raw.reader.bytes, raw.reader.ended, raw.reader.wasCut], [200, 0, true, false])
})

t.test('the deadline bounds each wait, not the whole, and not the reader', async (t) => {
  const b = bench({ limits: { streamChunks: 1 } })
  const steps = [gate(), gate(), gate()]
  const body = probe(b, 'server_streaming', async function * () {
    for (const [i, step] of steps.entries()) { await step.opened; yield piece(i, 5) }
  })
  const request = ask(b, 'stream', { ...body, timeout_seconds: 2 })
  for (const step of steps) {
    await b.clock.advance(1900)
    if (step === steps[2]) break
    step.open()
    const before = request.reader.received.length
    await until(() => request.reader.received.length > before)
  }
  request.reader.stuck = true
  steps[2]!.open()
  await settle()
  await b.clock.advance(25_000)
  request.reader.flow()
  await request.answer
  t.same(await words(request), ['started 0', 'chunk 1', 'chunk 2', 'chunk 3', 'completed 4'])
})

t.test('the iterator is closed, and its slot freed, when the call ends early', async (t) => {
  const b = bench({ limits: { concurrency: 1 } })
  let closed = 0
  const body = probe(b, 'server_streaming', async function * () {
    try { for (let i = 0; ; i++) { await settle(1); yield piece(i, 5) } } finally { closed++ }
  })
  const request = ask(b, 'stream', { ...body, call_id: 'c1' })
  await until(() => request.reader.received.length > 3)
  request.leave()
  await request.answer
  await until(() => closed === 1)
  const next = ask(b, 'stream', body)
  await until(() => next.reader.received.length > 3, 'the slot is free')
  next.leave()
  await next.answer
})

t.test('a handler that hangs loses its slot after a second', async (t) => {
  const b = bench({ limits: { concurrency: 1 } })
  let calls = 0
  const body = probe(b, 'server_streaming', async function * () {
    yield piece(0, 5)
    if (++calls === 1) await new Promise(() => {})
  })
  const first = ask(b, 'stream', { ...body, call_id: 'c1' })
  await until(() => first.reader.received.length > 1)
  b.capabilities.invoker.calls.cancel('c1', caller())
  await first.answer
  const second = ask(b, 'stream', body)
  await settle()
  await b.clock.advance(999)
  t.notOk(second.reader.opened)
  await b.clock.advance(1)
  await second.answer
  t.same(await words(second), ['started 0', 'chunk 1', 'completed 2'])
  t.match(b.logged.filter((l) => l.level === 'warn'), [{ message: /must observe call\.signal/ }])
})

t.test('event streams', async (t) => {
  const b = bench()
  const { opened, open } = gate()
  const body = probe(b, 'server_streaming', async function * () {
    yield piece(0, 3)
    await opened
    throw kernelError('instance_lost')
  })
  const request = ask(b, 'stream', { ...body, timeout_seconds: 100 }, { accept: 'text/event-stream' })
  const { reader } = request
  await until(() => reader.received.length >= 3)
  t.equal(reader.contentType, 'text/event-stream')
  t.ok(reader.text.startsWith(': keep-alive\n\n'), 'a comment at once')
  const comments = (): number => reader.text.split(': keep-alive').length - 1
  await b.clock.advance(9_999)
  t.equal(comments(), 1)
  await b.clock.advance(1)
  t.equal(comments(), 2)
  await b.clock.advance(20_000)
  t.equal(comments(), 4)
  open()
  await request.answer
  const events = reader.text.split('\n\n').filter((e) => e.startsWith('data: ')).map((e) =>
    JSON.parse(e.slice(6)) as {
      kind: string, sequence: number, media: { data: string, size: number } | null,
      error: { reason: string } | null })
  t.same(events.map((e) => [e.kind, e.sequence]), [['started', 0], ['chunk', 1], ['failed', 2]])
  t.match(events[1]!.media, { ...media, size: 3, data: Buffer.from([0, 0, 0]).toString('base64') })
  t.equal(events[2]!.error!.reason, 'instance_lost')
  t.ok(reader.ended)
  const length = reader.received.length
  await b.clock.advance(60_000)
  t.equal(reader.received.length, length, 'no comment after the end')
})

t.test('raw media: bytes only, a clean end only when complete', async (t) => {
  const check = async (
    name: string, source: Source, end: (b: Bench, r: Request) => unknown, clean: boolean, bytes: number
  ): Promise<void> => {
    const b = bench()
    const body = probe(b, 'server_streaming', source, { media_type: 'audio/mpeg' })
    const request = ask(b, 'stream', { ...body, call_id: 'c1' }, { accept: 'audio/mpeg' })
    await until(() => request.reader.bytes >= bytes, name)
    await end(b, request)
    await request.answer
    t.equal(request.reader.contentType, 'audio/mpeg')
    t.same([request.reader.bytes, request.reader.ended, request.reader.wasCut], [bytes, clean, !clean], name)
    t.match(request.reader.headers, { 'x-svc-command-id': /./ })
    t.equal(b.capabilities.invoker.calls.size, 0)
  }
  const then = (next: (call: View) => Promise<unknown>): Source => async function * (_, call) {
    yield piece(0)
    yield piece(1, 100)
    yield piece(2, 0)
    yield piece(3, 50)
    await next(call)
  }
  const forever = async (): Promise<unknown> => await new Promise(() => {})
  const nothing = (): void => {}
  await check('complete', then(async () => {}), nothing, true, 150)
  await check('fails', then(async () => { throw new Error('boom') }), nothing, false, 150)
  await check('cancelled', then(forever), (b) => b.capabilities.invoker.calls.cancel('c1', caller()),
    false, 150)
  await check('times out', then(forever), async (b) => { await b.clock.advance(30_000) }, false, 150)
  await check('node stops', then(forever), async (b) => { await b.capabilities.close() }, false, 150)
})

t.test('raw media holds its status until the first byte', async (t) => {
  const b = bench()
  const { opened, open } = gate()
  const body = probe(b, 'server_streaming', async function * () {
    yield piece(0)
    await opened
    throw kernelError('instance_lost')
  }, { media_type: 'audio/mpeg' })
  const request = ask(b, 'stream', body, { accept: 'audio/mpeg' })
  await until(() => b.capabilities.invoker.calls.size === 1)
  await b.clock.advance(10_000)
  t.notOk(request.reader.opened)
  open()
  t.equal(errorOf(request, await request.answer).reason, 'instance_lost')
  t.equal(request.reader.status, 500)
})

t.test('two hundred streams, then the session changes: one terminal each', async (t) => {
  const b = bench({ limits: { concurrency: 150, queue: 100 } })
  const body = probe(b, 'server_streaming', async function * (_: unknown, call: View) {
    for (let i = 0; !call.signal.aborted; i++) {
      yield piece(i, 100)
      await settle(1)
    }
  })
  const requests = Array.from({ length: 200 }, (_, i) =>
    ask(b, 'stream', body, { caller: caller(`c${i % 5}`) }))
  await until(() => requests.filter((r) => r.reader.received.length > 3).length === 150)
  b.commands.abortAll('session_changed')
  await Promise.all(requests.map(async (r) => await r.answer))
  let framed = 0
  for (const request of requests) {
    if (request.reader.contentType.startsWith('application/json')) {
      t.equal(errorOf(request, null).reason, 'session_changed')
      continue
    }
    framed++
    const frames = await request.reader.frames()
    t.same(frames.map((f) => f.sequence), frames.map((_, i) => i))
    t.same(frames.filter((f) => !['started', 'chunk'].includes(f.kind)).map((f) => f.error!.reason),
      ['session_changed'])
  }
  t.equal(framed, 150)
  t.equal(b.outcomes.length, 200)
  t.equal(b.capabilities.invoker.calls.size + b.commands.open, 0)
})
