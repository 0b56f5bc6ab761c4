import t from 'tap'
import { encodeFrame } from '../frames/frames.js'
import { SvcError } from '../../../kernel/api/errors.js'
import { ask, caller, errorOf, eventually, FakeReader, gate, piece, probe, until } from './kit.js'
import { at, cut, OTHER, pair } from './remote-kit.js'
import type { Request, Source, View } from './kit.js'
import type { Pair, Stand } from './remote-kit.js'

/** An endless source that records its chunks and its end. */
function endless (size: number): { source: Source, seen: { made: number, ended: boolean, aborted: string } } {
  const seen = { made: 0, ended: false, aborted: '' }
  async function * source (_input: unknown, call: View): AsyncGenerator {
    try {
      for (;;) yield piece(seen.made++, size)
    } finally {
      seen.ended = true
      seen.aborted = (call.signal.reason as SvcError | undefined)?.reason ?? ''
    }
  }
  return { source, seen }
}

/** Waits until the source has been idle for a while; resolves to its number of chunks. */
async function atRest (seen: { made: number }): Promise<number> {
  for (let quiet = 0, last = -1; quiet < 50;) {
    await new Promise((resolve) => { setTimeout(resolve, 2) })
    quiet = seen.made === last ? quiet + 1 : 0
    last = seen.made
  }
  return seen.made
}

const FRAMES = { accept: 'application/vnd.svc.frames' }

t.test('a reader that sleeps stops the source', async (t) => {
  for (const accept of ['application/vnd.svc.frames', 'text/event-stream', 'audio/mpeg']) {
    const nodes = await pair(t)
    const { source, seen } = endless(256 * 1024)
    const body = probe(nodes.there, 'server_streaming', source, { media_type: 'audio/mpeg' })
    const reader = new FakeReader()
    reader.stuck = true
    const request = ask(nodes.here, 'stream', at(body), { accept, reader })
    await eventually(() => seen.made > 3, 'a few chunks')
    const rest = await atRest(seen)
    // The buffers of two nodes and the sockets between them hold under 200 chunks; 64 MiB would be 256.
    t.ok(rest < 200, `${rest} chunks of 256 KiB were made ahead`)
    reader.flow()
    await eventually(() => seen.made > rest + 50, 'the source goes on')
    reader.stuck = true
    await atRest(seen)
    request.leave()
    reader.flow()
    await request.answer
    await eventually(() => seen.ended, 'the end of the source')
    t.equal(seen.aborted, 'cancelled')
    await until(() => nodes.there.capabilities.invoker.calls.size === 0, 'no call there')
  }
})

t.test('every way to end a call here ends it there', async (t) => {
  const check = async (
    name: string, end: (nodes: Pair, request: Request) => void, kind: string, reason: string
  ): Promise<void> => {
    const nodes = await pair(t)
    const { opened, open } = gate()
    const seen = { ended: false, commands: 0 }
    const body = probe(nodes.there, 'server_streaming', async function * (_input: unknown, call: View) {
      try {
        yield piece(0, 1000)
        seen.commands = nodes.there.commands.open
        call.signal.addEventListener('abort', open)
        await opened
      } finally { seen.ended = true }
    })
    const request = ask(nodes.here, 'stream', at(body, { call_id: 'c1' }), FRAMES)
    await eventually(() => request.reader.received.length > 1, 'the first chunk')
    t.same([nodes.here.capabilities.invoker.calls.size, nodes.here.commands.open, seen.commands], [1, 1, 1])
    end(nodes, request)
    await request.answer
    await eventually(() => seen.ended &&
      nodes.there.capabilities.invoker.calls.size === 0, `${name}: the end there`)
    t.match(nodes.here.outcomes, [{ kind, reason }], name)
    t.equal(nodes.here.capabilities.invoker.calls.size, 0)
    const frames = await request.reader.frames().catch(() => [])
    if (frames.length > 0) t.same(frames.map((f) => f.kind), ['started', 'chunk', kind], name)
  }
  await check('cancel by call id', ({ here }) => { here.capabilities.invoker.calls.cancel('c1', caller()) },
    'cancelled', 'cancelled')
  await check('the client leaves', (_nodes, { leave }) => { leave() }, 'cancelled', 'cancelled')
  await check('the session changes', ({ here }) => { here.commands.abortAll('session_changed') },
    'failed', 'session_changed')
  await check('the node stops', ({ here }) => { void here.capabilities.close() }, 'failed', 'shutting_down')
  await check('the session changes there', ({ there }) => { there.commands.abortAll('session_changed') },
    'failed', 'session_changed')
  await check('cancelled there', ({ there }, { reader }) => {
    there.commands.cancel(reader.headers['x-svc-command-id']!, caller())
  }, 'cancelled', 'cancelled')
  await check('the other node stops', ({ there }) => { void there.capabilities.close() },
    'failed', 'shutting_down')
})

t.test('an early failure has its status, a later one is a frame', async (t) => {
  const nodes = await pair(t)
  const thrown = new SvcError('voice_odd', { status: 418, retryable: true, message: 'Odd.', remedy: 'Sing.' },
    'Very odd.', { pitch: 3 })
  const body = probe(nodes.there, 'server_streaming', async function * (input: { n?: number }) {
    for (let i = 0; i < (input.n ?? 0); i++) yield piece(i, 1000)
    throw thrown
  }, { media_type: 'audio/mpeg' })
  const wanted = { reason: 'voice_odd', retryable: true, message: 'Very odd.', type: "I'm a Teapot",
    requestId: 'request-1', details: { pitch: 3, remedy: 'Sing.', node: 'beta' } }
  const early = ask(nodes.here, 'stream', at(body), FRAMES)
  t.match(errorOf(early, await early.answer), { status: 418, ...wanted })
  const late = ask(nodes.here, 'stream', at(body, { payload: { n: 2 } }), FRAMES)
  await late.answer
  const frames = await late.reader.frames()
  t.same(frames.map((f) => `${f.kind}:${f.sequence}`), ['started:0', 'chunk:1', 'chunk:2', 'failed:3'])
  t.match(frames[3]!.error, { code: 418, ...wanted })
  const raw = ask(nodes.here, 'stream', at(body, { payload: { n: 2 } }), { accept: 'audio/mpeg' })
  await raw.answer
  t.same([raw.reader.bytes, raw.reader.ended, raw.reader.wasCut], [2000, false, true])
})

t.test('a connection that breaks', async (t) => {
  const nodes = await pair(t)
  const { source } = endless(1000)
  const stream = probe(nodes.there, 'server_streaming', source)
  const unary = probe(nodes.there, 'unary', async () => await new Promise(() => {}))
  const frame = (kind: string, sequence: number): Uint8Array => encodeFrame({ media: null,
    header: { call_id: 'c', sequence, kind, payload: { i: 1 }, media: null, error: null } })

  const check = async (
    what: string, route: 'call' | 'stream', stand: Stand, fields: { status: number, reason: string }
  ): Promise<void> => {
    nodes.stand.call = stand
    const request = ask(nodes.here, route, at(route === 'call' ? unary : stream), FRAMES)
    const answer = await request.answer
    const sent = request.reader.status === 200
    const error = sent ? (await request.reader.frames()).at(-1)!.error! : errorOf(request, answer)
    t.match({ ...error, status: error.code },
      { ...fields, retryable: true, details: { node_id: 'node-2' } }, what)
    t.equal(sent, fields.reason === 'instance_lost', what)
    t.match(nodes.here.outcomes.at(-1), { taskId: null, passedOn: true }, what)
    t.equal(nodes.here.capabilities.invoker.calls.size, 0)
  }
  const before = { status: 502, reason: 'unreachable' }
  const after = { status: 500, reason: 'instance_lost' }
  await check('before the head', 'stream', (request) => { request.socket.destroy() }, before)
  await check('before the head of a unary call', 'call', (request) => { request.socket.destroy() }, before)
  await check('before the first chunk', 'stream', (request, response) => {
    response.write(frame('started', 0), () => { request.socket.destroy() })
  }, before)
  await check('after a chunk', 'stream', (request, response) => {
    const bytes = Buffer.concat([frame('started', 0), frame('chunk', 1)])
    response.write(bytes, () => { request.socket.destroy() })
  }, after)
  await check('inside a frame', 'stream', (_request, response) => {
    response.end(Buffer.concat([frame('started', 0), frame('chunk', 1), frame('chunk', 2).subarray(0, 9)]))
  }, after)
  await check('a clean end without a terminal', 'stream', (_request, response) => {
    response.end(Buffer.concat([frame('started', 0), frame('chunk', 1)]))
  }, after)
  await check('no frames at all', 'stream', (_request, response) => { response.end('<html></html>') }, before)
  let closed = false
  await check('no frames and no end', 'stream', (_request, response) => {
    response.on('close', () => { closed = true })
    response.write('<html></html>')
  }, before)
  await eventually(() => closed, 'nobody reads on')
  await check('a failure without a reason', 'stream', (_request, response) => {
    response.end(frame('failed', 0))
  }, before)
  await check('inside the answer of a unary call', 'call', (request, response) => {
    response.writeHead(200, { 'content-length': 99 }).write('{', () => { request.socket.destroy() })
  }, before)
  await check('no result', 'call', (_request, response) => { response.end('{}') }, before)
  await check('inside an error body', 'stream', (request, response) => {
    response.writeHead(500, { 'content-length': 99 }).write('{', () => { request.socket.destroy() })
  }, before)

  t.test('of a real stream', async (t) => {
    nodes.stand.call = null
    const request = ask(nodes.here, 'stream', at(stream), FRAMES)
    await eventually(() => request.reader.received.length > 5, 'some chunks')
    cut(nodes)
    await request.answer
    const frames = await request.reader.frames()
    t.match(frames.at(-1), { kind: 'failed', error: { reason: 'instance_lost', code: 500, retryable: true } })
    t.equal(frames.filter((f) => f.error !== null).length, 1)
    await eventually(() => nodes.there.capabilities.invoker.calls.size === 0, 'the end there')
  })
})

t.test('a node that is no longer live ends its calls', async (t) => {
  const nodes = await pair(t)
  const forever = new Promise(() => {})
  const stream = probe(nodes.there, 'server_streaming', async function * () { yield piece(0); await forever })
  const unary = probe(nodes.there, 'unary', async () => await forever)
  const open = [ask(nodes.here, 'stream', at(stream), FRAMES), ask(nodes.here, 'call', at(unary))]
  await eventually(() => nodes.there.capabilities.invoker.calls.size === 2 &&
    open[0]!.reader.received.length > 1,
  'both calls')
  await nodes.here.clock.advance(1500)
  t.equal(nodes.here.capabilities.invoker.calls.size, 2)
  nodes.live.set(OTHER.installId, false)
  await nodes.here.clock.advance(1000)
  await open[0]!.answer
  t.match((await open[0]!.reader.frames()).at(-1), { kind: 'failed', error: { reason: 'instance_lost' } })
  t.match(errorOf(open[1]!, await open[1]!.answer), { reason: 'unreachable', status: 502 })
})

t.test('time', async (t) => {
  const nodes = await pair(t)
  const { opened, open } = gate()
  const body = probe(nodes.there, 'server_streaming', async function * (_input: unknown, call: View) {
    call.setHeader('x-svc-task-id', 'late')
    await opened
    yield piece(0)
    await new Promise(() => {})
  })
  const request = ask(nodes.here, 'stream', at(body, { timeout_seconds: 20 }), FRAMES)
  await eventually(() => nodes.there.capabilities.invoker.calls.size === 1, 'the call there')
  await nodes.here.clock.advance(1000)
  t.notOk(request.reader.opened, 'the head waits a little longer than that of the other node')
  await nodes.there.clock.advance(1000)
  await eventually(() => nodes.answered.length === 2, 'the head')
  await nodes.here.clock.advance(500)
  await until(() => request.reader.opened)
  t.equal(request.reader.headers['x-svc-task-id'], 'late')
  open()
  await eventually(() => request.reader.received.length > 1, 'the chunk')
  await nodes.here.clock.advance(20_000)
  await request.answer
  t.match((await request.reader.frames()).at(-1), { kind: 'failed', error: { reason: 'timeout' } })
  await eventually(() => nodes.there.capabilities.invoker.calls.size === 0, 'the end there')
})

t.test('a reader that takes nothing is too slow', async (t) => {
  const nodes = await pair(t)
  const { source, seen } = endless(64 * 1024)
  const body = probe(nodes.there, 'server_streaming', source, { media_type: 'audio/mpeg' })
  const check = async (accept: string, patienceMs: number): Promise<void> => {
    const reader = new FakeReader()
    reader.stuck = true
    const request = ask(nodes.here, 'stream', at(body), { accept, reader })
    await eventually(() => reader.opened, 'the head')
    await atRest(seen)
    // Only the calling node enforces the reader's stall limit; the serving node must not.
    for (const node of [nodes.there, nodes.here]) await node.clock.advance(patienceMs - 1)
    t.same([reader.wasCut, nodes.there.capabilities.invoker.calls.size], [false, 1], accept)
    await nodes.here.clock.advance(1)
    await request.answer
    t.ok(reader.wasCut, accept)
    t.equal(nodes.here.outcomes.at(-1)!.reason, 'slow_consumer')
    await eventually(() => nodes.there.capabilities.invoker.calls.size === 0, 'the end there')
  }
  await check('application/vnd.svc.frames', 30_000)
  await check('audio/mpeg', 15 * 60_000)
})
