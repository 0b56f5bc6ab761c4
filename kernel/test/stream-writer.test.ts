import { EventEmitter } from 'node:events'
import t from 'tap'
import { openStream } from '../http/request-context.js'
import { manualClock } from '../testing/index.js'
import type { ServerResponse } from 'node:http'

/** A fake response whose socket is full after `accepts` writes, until `drain`. */
function response (accepts: number): { raw: EventEmitter & { destroyed: boolean }, written: number[] } {
  const written: number[] = []
  const raw = Object.assign(new EventEmitter(), {
    destroyed: false, writableEnded: false, writeHead: () => {}, flushHeaders: () => {},
    write: (bytes: Uint8Array | string) => written.push(bytes.length) <= accepts,
    destroy () { raw.destroyed = true; raw.emit('close') }
  })
  return { raw, written }
}

const open = (accepts: number) => {
  const { raw, written } = response(accepts)
  const clock = manualClock()
  const stream = openStream(raw as unknown as ServerResponse, { contentType: 'text/plain' },
    { clock, stallMs: 1000, onClose: () => {} })
  return { raw, written, clock, stream }
}

const failure = async (work: Promise<void>): Promise<unknown> =>
  await work.then(() => 'done', (error: unknown) => error)

t.test('a write that the socket takes is over at once, one that it does not take waits for it', async (t) => {
  const { raw, stream } = open(1)
  t.equal(stream.write('a'), undefined)
  const waiting = stream.write('b')
  raw.emit('drain')
  await t.resolves(waiting!)
})

t.test('a reader that takes nothing is given up, one that takes a piece now and then is not', async (t) => {
  const { raw, written, clock, stream } = open(0)
  const large = stream.write(Buffer.alloc(40_000))!
  for (let piece = 1; piece < 3; piece++) {
    await clock.advance(900)
    t.equal(written.length, piece)
    raw.emit('drain')
    await clock.advance(0)
  }
  t.same(written, [16_384, 16_384, 7_232], 'the limit counts for a piece, not for all')
  const given = failure(large)
  await clock.advance(1000)
  t.match(await given, { reason: 'slow_consumer', message: /read no data for 1 seconds/ })
})

t.test('a reader who leaves ends the wait, and later writes', async (t) => {
  const { raw, stream } = open(0)
  const waiting = failure(stream.write('a')!)
  stream.cut()
  t.match(await waiting, { reason: 'cancelled' })
  t.equal(raw.destroyed, true)
  t.match(await failure(stream.write('b')!), { reason: 'cancelled' })
})
