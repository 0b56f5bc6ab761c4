import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { decodeFrame, encodeFrame, type Frame } from '../frames/frames.js'
import { kernelError } from '../../../kernel/api/errors.js'
import { bench, caller, eventually, gate, piece, probe, settle, type Bench, type View } from './kit.js'

interface Client {
  ws: WebSocket
  frames: Frame[]
  closed: { code: number, reason: string } | null
  say (message: object): void
  /** The frames of one call, each as `kind sequence`. */
  of (callId: string): string[]
  /** Waits for the terminal frame of the call. */
  end (callId: string): Promise<Frame>
}

const ENDS = ['completed', 'failed', 'cancelled']

async function connect (t: Tap, b: Bench, who = caller()): Promise<Client> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false,
    maxPayload: 1024 * 1024 })
  server.on('connection', (ws) => { b.capabilities.session(ws, who) })
  await once(server, 'listening')
  const ws = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  t.teardown(() => { ws.terminate(); server.close() })
  const frames: Frame[] = []
  const client: Client = {
    ws,
    frames,
    closed: null,
    say: (message) => { ws.send(JSON.stringify(message)) },
    of: (callId) => frames.filter((f) => f.header.call_id === callId).map((f) =>
      `${f.header.kind} ${f.header.sequence}`),
    async end (callId) {
      const last = (): Frame | undefined =>
        frames.find((f) => f.header.call_id === callId && ENDS.includes(f.header.kind))
      await eventually(() => last() !== undefined || client.closed !== null, `the end of ${callId}`)
      return last()!
    }
  }
  ws.on('message', (data, isBinary) => {
    if (!isBinary) throw new Error('the server answers in binary only')
    frames.push(decodeFrame(data as Buffer) as unknown as Frame)
  })
  ws.on('close', (code, reason) => { client.closed = { code, reason: reason.toString() } })
  await once(ws, 'open')
  return client
}

type Tap = Pick<typeof t, 'teardown'>

const total = async (_: unknown, call: View): Promise<{ sum: number }> => {
  let sum = 0
  for await (const chunk of call.input as AsyncIterable<{ i: number }>) sum += chunk.i
  return { sum }
}
const doubles = async function * (_: unknown, call: View): AsyncGenerator<unknown> {
  for await (const chunk of call.input as AsyncIterable<{ i: number }>) yield piece(chunk.i * 2, 4)
}
const until = async (call: View): Promise<never> => await new Promise((_resolve, reject) => {
  call.signal.addEventListener('abort', () => { reject(call.signal.reason as Error) })
})

t.test('every kind of call on one socket', async (t) => {
  const b = bench()
  const unary = probe(b, 'unary', async (input: { n: number }) => ({ sum: input.n }))
  const server = probe(b, 'server_streaming', async function * (_: unknown, call: View) {
    call.setHeader('x-svc-task-id', 'task-7')
    yield piece(0, 10)
    yield piece(1)
  })
  const client = probe(b, 'client_streaming', total)
  const both = probe(b, 'bidirectional', doubles)
  const c = await connect(t, b)
  c.say({ kind: 'call', call_id: 'u', ...unary, payload: { n: 3 } })
  c.ws.send(encodeFrame({ header: { kind: 'call', call_id: 's', ...server, media: null }, media: null }))
  c.say({ kind: 'call', call_id: 'c', ...client })
  c.say({ kind: 'call', call_id: 'b', ...both })
  for (const i of [1, 2, 3]) for (const id of ['c', 'b']) c.say({ kind: 'chunk', call_id: id,
    payload: { i } })
  for (const id of ['c', 'b']) c.say({ kind: 'end', call_id: id })
  t.same((await c.end('u')).header.payload, { sum: 3 })
  t.same((await c.end('c')).header.payload, { sum: 6 })
  await c.end('s')
  await c.end('b')
  t.same(c.of('u'), ['started 0', 'completed 1'])
  t.same(c.of('s'), ['started 0', 'chunk 1', 'chunk 2', 'completed 3'])
  t.same(c.of('c'), ['started 0', 'completed 1'])
  t.same(c.of('b'), ['started 0', 'chunk 1', 'chunk 2', 'chunk 3', 'completed 4'])
  t.same(c.frames.filter((f) => f.header.call_id === 'b' &&
    f.header.kind === 'chunk').map((f) => [f.header.payload, f.media?.byteLength]),
  [[{ i: 2 }, 4], [{ i: 4 }, 4], [{ i: 6 }, 4]])
  t.match(c.frames.find((f) => f.header.call_id === 's')!.header.payload,
    { command_id: /.{36}/, task_id: 'task-7' })
  t.equal(b.capabilities.invoker.calls.size + b.commands.open, 0)
})

t.test('an echo answers each chunk before the next is sent', async (t) => {
  const b = bench()
  const body = probe(b, 'bidirectional', doubles)
  const c = await connect(t, b)
  c.say({ kind: 'call', call_id: 'b', ...body })
  for (let i = 0; i < 5; i++) {
    c.say({ kind: 'chunk', call_id: 'b', payload: { i } })
    await eventually(() => c.of('b').length === i + 2, `answer ${i}`)
  }
  c.say({ kind: 'end', call_id: 'b' })
  t.equal((await c.end('b')).header.kind, 'completed')
})

t.test('refusals', async (t) => {
  const b = bench({ limits: { payloadBytes: 5000 } })
  const body = probe(b, 'unary', async () => ({ sum: 1 }))
  const c = await connect(t, b)
  const check = async (id: string, change: object, reason: string): Promise<void> => {
    c.say({ kind: 'call', call_id: id, ...body, ...change })
    const { header } = await c.end(id)
    t.same([header.kind, header.sequence, header.error!.reason], ['failed', 0, reason])
  }
  await check('1', { target_node: 'x' }, 'node_not_found')
  await check('2', { version: '2.0.0' }, 'version_mismatch')
  await check('3', { payload: { n: 'x' } }, 'invalid_payload')
  await check('4', { payload: { n: 1, x: 'x'.repeat(6000) } }, 'payload_too_large')
  await check('5', { timeout_seconds: 301 }, 'invalid_request')
  await check('6', { unknown: 1 }, 'invalid_request')
  await check('7', { capability_id: 5 }, 'invalid_request')
  t.equal(c.closed, null)
})

t.test('complaints that end no call', async (t) => {
  const b = bench()
  const { opened, open } = gate()
  const body = probe(b, 'unary', async () => { await opened; return { sum: 1 } })
  const c = await connect(t, b)
  c.say({ kind: 'call', call_id: 'u', ...body })
  const check = async (message: object, reason: string): Promise<void> => {
    const before = c.frames.length
    c.say(message)
    await eventually(() => c.frames.length > before, reason)
    const { header } = c.frames.at(-1)!
    t.same([header.kind, header.error!.reason], ['error', reason], JSON.stringify(message).slice(0, 80))
  }
  await check({ kind: 'call', call_id: 'u', ...body }, 'invalid_request')
  await check({ kind: 'chunk', call_id: 'u', payload: { i: 1 } }, 'invalid_request')
  await check({ kind: 'end', call_id: 'u' }, 'invalid_request')
  await check({ kind: 'chunk', call_id: 'nobody', payload: {} }, 'command_unknown')
  await check({ kind: 'cancel', call_id: 'nobody' }, 'command_unknown')
  await check({ kind: 'cancel' }, 'command_unknown')
  await check({ kind: 'call', call_id: 9, ...body }, 'invalid_request')
  open()
  t.equal((await c.end('u')).header.kind, 'completed', 'the call went on')
})

t.test('what is no message closes the socket', async (t) => {
  const check = async (message: string | Uint8Array, reason: RegExp): Promise<void> => {
    const b = bench()
    let aborted = false
    const body = probe(b, 'unary', async (_: unknown, call: View) => {
      call.signal.addEventListener('abort', () => { aborted = true })
      return await until(call)
    })
    const c = await connect(t, b)
    c.say({ kind: 'call', call_id: 'u', ...body })
    await eventually(() => b.capabilities.invoker.calls.size === 1, 'the call')
    await settle()
    c.ws.send(message)
    await eventually(() => c.closed !== null, 'the close')
    t.equal(c.closed!.code, 4400)
    t.match(c.closed!.reason, reason)
    await eventually(() => b.capabilities.invoker.calls.size === 0 && aborted, 'its calls to end')
  }
  await check('nonsense', /JSON/)
  await check('[]', /not a JSON object/)
  await check('{"kind":"dance"}', /kind must be one of/)
  await check('{}', /kind must be one of/)
  await check(new Uint8Array([1, 2, 3]), /not exactly one frame/)
  await check(new Uint8Array([255, 0, 0, 0, 1]), /header of/)
  await check('{"kind":"chunk","call_id":"u","payload":{},"media":{"size":3}}', /media must be in a chunk/)
  await check(encodeFrame({ header: { kind: 'cancel', call_id: 'u', media: { size: 3 } },
    media: new Uint8Array(3) }), /media must be in a chunk/)
})

t.test('ends of calls', async (t) => {
  const b = bench()
  const unary = probe(b, 'unary', async (_: unknown, call: View) => await until(call))
  const stream = probe(b, 'server_streaming',
    async function * (_: unknown, call: View) { yield piece(0, 5); await until(call) })
  const client = probe(b, 'client_streaming', total)
  const both = probe(b, 'bidirectional', async function * (_: unknown, call: View) {
    for await (const _chunk of call.input) throw kernelError('instance_lost')
  })
  const c = await connect(t, b)
  const check = async (id: string, body: object, end: () =>
  unknown, kind: string, reason: string | null): Promise<void> => {
    c.say({ kind: 'call', call_id: id, ...body, timeout_seconds: 5 })
    await eventually(() => b.capabilities.invoker.calls.size === 1, id)
    await settle(20)
    await end()
    const { header } = await c.end(id)
    t.same([header.kind, header.error?.reason ?? null], [kind, reason], id)
    t.equal(c.of(id).filter((f) => ENDS.includes(f.split(' ')[0]!)).length, 1)
    await eventually(() => b.capabilities.invoker.calls.size === 0, 'the end')
  }
  const cancel = (id: string) => (): void => { c.say({ kind: 'cancel', call_id: id }) }
  await check('unary cancel', unary, cancel('unary cancel'), 'cancelled', null)
  await check('stream cancel', stream, cancel('stream cancel'), 'cancelled', null)
  await check('input cancel', client, cancel('input cancel'), 'cancelled', null)
  await check('route cancel', stream, () =>
    b.capabilities.invoker.calls.cancel('route cancel', caller()), 'cancelled', null)
  await check('timeout', stream, async () => { await b.clock.advance(5000) }, 'failed', 'timeout')
  await check('no input', client, async () => { await b.clock.advance(5000) }, 'failed', 'timeout')
  await check('session', stream, () => { b.commands.abortAll('session_changed') }, 'failed',
    'session_changed')
  await check('bad chunk', client,
    () => { c.say({ kind: 'chunk', call_id: 'bad chunk', payload: { i: 'x' } }) }, 'failed',
    'invalid_payload')
  await check('throws', both, () => { c.say({ kind: 'chunk', call_id: 'throws', payload: { i: 1 } }) },
    'failed', 'instance_lost')
})

t.test('client chunks keep a call alive', async (t) => {
  const b = bench()
  const body = probe(b, 'client_streaming', total)
  const c = await connect(t, b)
  c.say({ kind: 'call', call_id: 'c', ...body, timeout_seconds: 5 })
  await eventually(() => b.capabilities.invoker.calls.size === 1, 'the call')
  let seen = 0
  c.ws.on('pong', () => { seen++ })
  for (let i = 1; i <= 4; i++) {
    await b.clock.advance(4000)
    c.say({ kind: 'chunk', call_id: 'c', payload: { i } })
    c.ws.ping()
    await eventually(() => seen === i, 'the chunk to arrive')
    await settle()
  }
  c.say({ kind: 'end', call_id: 'c' })
  t.same((await c.end('c')).header.payload, { sum: 10 })
})

t.test('a handler that is behind stops the socket from being read', async (t) => {
  const b = bench({ limits: { inputChunks: 4 } })
  const { opened, open } = gate()
  const body = probe(b, 'client_streaming',
    async (input: unknown, call: View) => { await opened; return await total(input, call) })
  const c = await connect(t, b)
  c.say({ kind: 'call', call_id: 'c', ...body })
  const big = 'x'.repeat(60_000)
  const wide = probe(b, 'client_streaming', async (_: unknown, call: View) => {
    await opened
    let sum = 0
    for await (const chunk of call.input as AsyncIterable<{ s: string }>) sum += chunk.s.length
    return { sum }
  }, { id: 'wide', input_chunk_schema: { type: 'object' } })
  c.say({ kind: 'call', call_id: 'w', ...wide })
  for (let i = 0; i < 300; i++) c.say({ kind: 'chunk', call_id: 'w', payload: { s: big } })
  c.say({ kind: 'end', call_id: 'w' })
  c.say({ kind: 'end', call_id: 'c' })
  await eventually(() => b.capabilities.invoker.calls.size === 2, 'both calls')
  for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => { setTimeout(resolve, 2) })
  t.ok(c.ws.bufferedAmount > 1024 * 1024,
    `${c.ws.bufferedAmount} bytes could not be sent: the node does not read`)
  await b.clock.advance(20_000)
  t.equal(c.closed, null, 'a paused peer is not taken for dead')
  open()
  t.same((await c.end('w')).header.payload, { sum: 300 * 60_000 })
  t.same((await c.end('c')).header.payload, { sum: 0 })
})

t.test('a handler that never takes its input loses its call, not the socket', async (t) => {
  const b = bench({ limits: { inputChunks: 4 } })
  const deaf = probe(b, 'client_streaming', async (_: unknown, call: View) =>
    await until(call), { id: 'deaf' })
  const unary = probe(b, 'unary', async () => ({ sum: 1 }))
  const c = await connect(t, b)
  c.say({ kind: 'call', call_id: 'd', ...deaf, timeout_seconds: 300 })
  for (let i = 0; i < 4; i++) c.say({ kind: 'chunk', call_id: 'd', payload: { i } })
  await eventually(() => b.capabilities.invoker.calls.size === 1, 'the call')
  let pongs = 0
  c.ws.on('pong', () => { pongs++ })
  c.ws.ping()
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => { setTimeout(resolve, 2) })
  t.equal(pongs, 0, 'the node does not read')
  c.say({ kind: 'call', call_id: 'u', ...unary })
  await b.clock.advance(30_000)
  t.match((await c.end('d')).header.error, { reason: 'timeout', message: /read no input for 30 s/ })
  t.equal((await c.end('u')).header.kind, 'completed')
})

t.test('limits of a socket', async (t) => {
  const b = bench({ limits: { sessionCalls: 3 } })
  const body = probe(b, 'unary', async (_: unknown, call: View) => await until(call))
  const c = await connect(t, b)
  for (const id of ['1', '2', '3', '4']) c.say({ kind: 'call', call_id: id, ...body })
  t.match((await c.end('4')).header.error, { reason: 'overloaded', code: 429 })
  c.ws.close()
  await eventually(() => b.capabilities.invoker.calls.size === 0, 'closing the socket to end its calls')
  t.same(b.outcomes.map((o) => o.kind), ['cancelled', 'cancelled', 'cancelled'])
})

t.test('two calls of one id from two sockets', async (t) => {
  const b = bench()
  const body = probe(b, 'unary', async (_: unknown, call: View) => await until(call))
  const [one, two] = [await connect(t, b), await connect(t, b)]
  one.say({ kind: 'call', call_id: 'x', ...body })
  await eventually(() => b.capabilities.invoker.calls.size === 1, 'the first')
  two.say({ kind: 'call', call_id: 'x', ...body })
  t.match((await two.end('x')).header.error, { reason: 'invalid_request', param: 'call_id' })
  one.say({ kind: 'cancel', call_id: 'x' })
  t.equal((await one.end('x')).header.kind, 'cancelled')
})

t.test('a peer that does not read', async (t) => {
  const b = bench({ limits: { sessionBufferBytes: 1024 * 1024 } })
  let made = 0
  const body = probe(b, 'server_streaming', async function * () { for (;;) yield piece(made++, 256 * 1024) })
  const c = await connect(t, b)
  let sides = 0
  c.ws.pause()
  for (let i = 0; i < 5; i++) c.say({ kind: 'call', call_id: `s${i}`, ...body })
  await eventually(() => b.capabilities.invoker.calls.size === 5, 'the calls')
  for (let last = -1; last !== made;) {
    last = made
    sides++
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => { setTimeout(resolve, 2) })
  }
  t.ok(made * 256 * 1024 < 64 * 1024 * 1024, `${made} chunks made in ${sides} rounds: bounded`)
  await b.clock.advance(30_000)
  await eventually(() => b.capabilities.invoker.calls.size === 0, 'the socket to be dropped')
  t.ok(b.outcomes.every((o) => o.kind !== 'completed'))
})

t.test('pings', async (t) => {
  const b = bench()
  const c = await connect(t, b)
  let pings = 0
  c.ws.on('ping', () => { pings++ })
  await b.clock.advance(5000)
  await eventually(() => pings === 1, 'a ping')
  await eventually(() => c.ws.bufferedAmount === 0, 'the pong to leave')
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => { setTimeout(resolve, 2) })
  await b.clock.advance(10_000)
  t.equal(c.closed, null)
  c.ws.pause()
  await b.clock.advance(20_000)
  c.ws.resume()
  await eventually(() => c.closed !== null, 'a silent peer to be dropped')
})

t.test('the node stops', async (t) => {
  const b = bench()
  const body = probe(b, 'server_streaming',
    async function * (_: unknown, call: View) { yield piece(0, 5); await until(call) })
  const c = await connect(t, b)
  c.say({ kind: 'call', call_id: 's', ...body })
  await eventually(() => c.of('s').length === 2, 'the chunk')
  await b.capabilities.close()
  t.equal((await c.end('s')).header.error!.reason, 'shutting_down')
  await eventually(() => c.closed !== null, 'the close')
  t.equal(c.closed!.code, 4410)
})

t.test('sixty-four calls interleave, each with its own numbers', async (t) => {
  const b = bench({ limits: { concurrency: 64 } })
  const body = probe(b, 'server_streaming', async function * (input: { n: number }) {
    for (let i = 0; i < 20; i++) { await settle(1); yield piece(i + input.n, 100) }
  })
  const c = await connect(t, b)
  const ids = Array.from({ length: 64 }, (_, i) => `c${i}`)
  ids.forEach((id, n) => { c.say({ kind: 'call', call_id: id, ...body, payload: { n } }) })
  for (const [n, id] of ids.entries()) {
    await c.end(id)
    const own = c.frames.filter((f) => f.header.call_id === id)
    t.same(own.map((f) => f.header.sequence), Array.from({ length: 22 }, (_, i) => i))
    t.same(own.slice(1, -1).map((f) => (f.header.payload as { i: number }).i),
      Array.from({ length: 20 }, (_, i) => i + n))
  }
})
