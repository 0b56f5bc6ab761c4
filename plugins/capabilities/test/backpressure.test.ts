import t from 'tap'
import { ask, bench, FakeReader, piece, probe, settle, until, type Source } from './kit.js'

/** An endless source that counts its chunks. */
function counting (size: number, upTo = Number.POSITIVE_INFINITY): { source: Source, made: () =>
number, done: () => boolean } {
  let made = 0
  let done = false
  return {
    made: () => made,
    done: () => done,
    source: async function * () {
      for (; made < upTo;) yield piece(made++, size)
      done = true
    }
  }
}

t.test('a slow reader holds the handler back', async (t) => {
  const check = async (size: number, limits: Partial<Record<'streamChunks' | 'streamBytes', number>>,
    most: number): Promise<void> => {
    const b = bench({ limits })
    const { source, made } = counting(size)
    const body = probe(b, 'server_streaming', source)
    const reader = new FakeReader()
    reader.stuck = true
    const request = ask(b, 'stream', body, { reader })
    await until(() => reader.opened)
    await settle(200)
    // The writer may hold one chunk, and one chunk may exceed the byte limit.
    t.ok(made() >= most && made() <= most + 2, `${made()} made, about ${most} expected`)
    const before = made()
    while (made() === before) { reader.takeOne(); await settle(1) }
    t.ok(made() - before <= 2, 'pulled again only as far as the reader took')
    request.leave()
    await b.clock.advance(5000)
    await request.answer
    t.ok(reader.wasCut, 'a reader that does not take its terminal is cut off')
  }
  await check(10, {}, 64)
  await check(10, { streamChunks: 5 }, 5)
  await check(128 * 1024, {}, 8)
  await check(4 * 1024 * 1024, {}, 1)
})

t.test('a reader that takes nothing for 30 seconds is cut off', async (t) => {
  const b = bench()
  const { source } = counting(1000)
  const body = probe(b, 'server_streaming', source)
  const reader = new FakeReader()
  reader.stuck = true
  const request = ask(b, 'stream', body, { reader })
  await until(() => reader.opened)
  await b.clock.advance(29_000)
  t.notOk(reader.wasCut)
  reader.takeOne()
  await settle()
  await b.clock.advance(29_000)
  t.notOk(reader.wasCut, 'one byte taken is a sign of life')
  await b.clock.advance(1000)
  await request.answer
  t.ok(reader.wasCut)
  t.notOk(reader.ended)
  t.match(b.outcomes, [{ kind: 'failed', reason: 'slow_consumer' }])
  t.equal(b.capabilities.invoker.calls.size, 0)
})

t.test('one slow reader does not slow the others', async (t) => {
  const b = bench()
  const body = probe(b, 'server_streaming', async function * (input: { n: number }) {
    for (let i = 0; i < input.n; i++) yield piece(i, 10_000)
  })
  const reader = new FakeReader()
  reader.stuck = true
  const slow = ask(b, 'stream', { ...body, payload: { n: 1000 } }, { reader })
  await until(() => reader.opened)
  const others = Array.from({ length: 5 }, () => ask(b, 'stream', { ...body, payload: { n: 200 } }))
  for (const other of others) {
    await other.answer
    t.equal((await other.reader.frames()).length, 202)
  }
  slow.leave()
  await b.clock.advance(5000)
  await slow.answer
})

t.test('raw media: the handler finishes ahead of its reader and frees its slot', async (t) => {
  const b = bench({ limits: { concurrency: 1 } })
  const { source, done } = counting(64 * 1024, 100)
  const body = probe(b, 'server_streaming', source, { media_type: 'audio/mpeg' })
  const reader = new FakeReader()
  reader.stuck = true
  const request = ask(b, 'stream', { ...body, call_id: 'c1' }, { accept: 'audio/mpeg', reader })
  await until(done)
  t.notOk(reader.ended)
  const second = ask(b, 'stream', body, { accept: 'audio/mpeg' })
  await second.answer
  t.ok(second.reader.ended, 'another call ran meanwhile')
  await b.clock.advance(14 * 60_000)
  t.notOk(reader.wasCut, 'a paused player is kept')
  reader.flow()
  await request.answer
  t.same([reader.bytes, reader.ended], [100 * 64 * 1024, true])
  t.same(b.outcomes.map((o) => o.kind), ['completed', 'completed'])
})

t.test('raw media: fifteen minutes without a byte taken', async (t) => {
  const b = bench()
  const { source } = counting(64 * 1024)
  const body = probe(b, 'server_streaming', source, { media_type: 'audio/mpeg' })
  const reader = new FakeReader()
  reader.stuck = true
  const request = ask(b, 'stream', body, { accept: 'audio/mpeg', reader })
  await until(() => reader.opened)
  await b.clock.advance(15 * 60_000)
  await request.answer
  t.ok(reader.wasCut)
  t.match(b.outcomes, [{ reason: 'slow_consumer' }])
})

t.test('raw media is bounded over all streams', async (t) => {
  const MIB = 1024 * 1024
  const b = bench({ limits: { mediaBytes: 4 * MIB, mediaTotalBytes: 10 * MIB } })
  const sources = Array.from({ length: 6 }, () => counting(256 * 1024))
  const requests = sources.map(({ source }, i) => {
    const body = probe(b, 'server_streaming', source, { id: `raw-${i}`, media_type: 'audio/mpeg' })
    const reader = new FakeReader()
    reader.stuck = true
    return ask(b, 'stream', body, { accept: 'audio/mpeg', reader })
  })
  await until(() => requests.every((r) => r.reader.opened))
  await settle(300)
  const made = sources.map((s) => s.made())
  const total = made.reduce((a, c) => a + c, 0) * 256 * 1024
  t.ok(total <= 10 * MIB + 12 * 256 * 1024, `${total} bytes made`)
  t.ok(made.every((m) => m >= 1 && m <= 18), `each has something: ${made.join(' ')}`)
  requests[0]!.leave()
  await requests[0]!.answer
  await until(() => sources.slice(1).some((s, i) => s.made() > made[i + 1]!),
    'room given back lets others go on')
  for (const request of requests) request.leave()
  await Promise.all(requests.map(async (r) => await r.answer))
  t.ok(requests.every((r) => r.reader.wasCut))
})
