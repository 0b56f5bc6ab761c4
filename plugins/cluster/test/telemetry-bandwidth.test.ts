import { PassThrough, Readable } from 'node:stream'
import { deflateSync } from 'node:zlib'
import t from 'tap'
import { measure, PROBE_BYTES, probeBody, rateOf } from '../links/bandwidth.js'
import { systemClock } from '../../../kernel/api/clock.js'
import { manualClock } from '../../../kernel/testing/manual-clock.js'

const MIB = 1024 * 1024

t.test('the rate of a transfer; one too small or without a duration tells nothing', (t) => {
  const check = (bytes: number, ms: number, expected: number | null): void => {
    t.equal(rateOf({ bytes, ms }), expected, `${bytes} bytes in ${ms} ms`)
  }
  check(MIB, 1000, MIB)
  check(3 * MIB, 1500, 2 * MIB)
  check(MIB - 1, 1000, null)
  check(0, 0, null)
  for (const ms of [0, -1, NaN]) check(MIB, ms, null)
  t.end()
})

t.test('the body of a probe', async (t) => {
  const all = Buffer.concat(await probeBody().toArray() as Buffer[])
  t.equal(all.length, PROBE_BYTES)
  t.ok(deflateSync(all).length >= PROBE_BYTES, 'nothing to compress')
})

t.test('a probe is made as fast as it is taken', async (t) => {
  const body = probeBody()
  body.once('readable', () => {})
  await new Promise((resolve) => { setImmediate(resolve) })
  t.ok(body.readableLength > 0 && body.readableLength < MIB, `${body.readableLength} bytes wait`)
  body.destroy()
})

t.test('a body is timed from its first piece to its last', async (t) => {
  const clock = manualClock()
  const body = new PassThrough()
  const measured = measure(body, clock)
  await clock.advance(400)
  for (const size of [500, MIB, MIB]) {
    body.write(Buffer.alloc(size))
    await clock.advance(100)
  }
  body.end()
  await clock.advance(50)
  t.same(await measured, { bytes: 2 * MIB, ms: 200 })
})

t.test('bodies that are not measured to their end', async (t) => {
  t.same(await measure(Readable.from([]), systemClock), { bytes: 0, ms: 0 })
  const broken = new PassThrough()
  broken.destroy(new Error('link down'))
  await t.rejects(measure(broken, systemClock), /link down/)
  const endless = Readable.from((function * () { for (;;) yield Buffer.alloc(MIB) })())
  await t.rejects(measure(endless, systemClock), /exceeds 8388608 bytes/)
  t.ok(endless.destroyed)
})

t.test('a slow link is measured by what came in time', async (t) => {
  const clock = manualClock()
  const body = new PassThrough()
  const measured = measure(body, clock, 1000)
  for (const size of [10, MIB, MIB]) {
    await clock.advance(300)
    body.write(Buffer.alloc(size))
    await clock.advance(0)
  }
  await clock.advance(5000)
  t.same(await measured, { bytes: 2 * MIB, ms: 600 })
  t.ok(body.destroyed)
})
