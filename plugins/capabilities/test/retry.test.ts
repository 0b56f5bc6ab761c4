import t from 'tap'
import { ask, bench, piece, probe, type Piece, type View } from './kit.js'
import { at, pair } from './remote-kit.js'

const media = { media_type: 'audio/mpeg' }
const headers = { 'x-svc-retry': '1' }

t.test('a handler learns whether a lost request may be tried again', async (t) => {
  const b = bench()
  const seen: boolean[] = []
  const unary = probe(b, 'unary', async (_: unknown, call: View) => {
    seen.push(call.retry)
    return { sum: 1 }
  })
  const stream = probe(b, 'server_streaming',
    async function * (_: unknown, call: View): AsyncGenerator<Piece> {
      seen.push(call.retry)
      yield piece(0, 10)
    }, media)
  const check = async (
    route: 'call' | 'stream', more: Parameters<typeof ask>[3], expected: boolean, name: string
  ): Promise<void> => {
    await ask(b, route, route === 'call' ? unary : stream, more).answer
    t.equal(seen.pop(), expected, name)
  }
  await check('call', { headers }, true, 'one result')
  await check('call', {}, false, 'without the header nothing changes')
  for (const value of ['0', 'true', '', '11']) {
    await check('call', { headers: { 'x-svc-retry': value } }, false, `x-svc-retry: ${value}`)
  }
  await check('stream', { headers, accept: 'audio/mpeg' }, true, 'bytes that wait for the first of them')
  await check('stream', { accept: 'audio/mpeg' }, false, 'the same without the header')
  await check('stream', { headers }, false, 'a stream of frames')
  await check('stream', { headers, accept: 'text/event-stream' }, false, 'a stream of events')
  await check('stream', { headers, member: 'install-b' }, true, 'frames for a node that asks for it')
})

t.test('it goes on to the node that serves the call, and only where it may', async (t) => {
  const nodes = await pair(t)
  const seen: boolean[] = []
  const unary = probe(nodes.there, 'unary', async (_: unknown, call: View) => {
    seen.push(call.retry)
    call.setHeader('x-svc-retried', '1')
    return { sum: 1 }
  })
  const answer = await ask(nodes.here, 'call', at(unary), { headers }).answer
  t.match(answer, { status: 200, headers: { 'x-svc-retried': '1' } })
  await ask(nodes.here, 'call', at(unary)).answer
  const stream = probe(nodes.there, 'server_streaming',
    async function * (_: unknown, call: View): AsyncGenerator<Piece> {
      seen.push(call.retry)
      yield piece(0, 10)
    }, media)
  await ask(nodes.here, 'stream', at(stream), { headers, accept: 'audio/mpeg' }).answer
  await ask(nodes.here, 'stream', at(stream), { headers }).answer
  t.same(seen, [true, false, true, false])
})

t.test('the head of a raw answer from another node waits for the last try', async (t) => {
  const nodes = await pair(t)
  const stream = probe(nodes.there, 'server_streaming',
    async function * (_: unknown, call: View): AsyncGenerator<Piece> {
      call.setHeader('x-svc-task-id', 'first')
      // Longer than the response head of a framed stream waits for the first chunk.
      await nodes.there.clock.advance(5000)
      call.setHeader('x-svc-task-id', 'second')
      call.setHeader('x-svc-retried', '1')
      yield piece(0, 10)
    }, media)
  const request = ask(nodes.here, 'stream', at(stream), { headers, accept: 'audio/mpeg' })
  await request.answer
  t.match(request.reader.headers, { 'x-svc-task-id': 'second', 'x-svc-retried': '1' })
})
