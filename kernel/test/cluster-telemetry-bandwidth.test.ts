import { randomBytes } from 'node:crypto'
import { PassThrough, Readable } from 'node:stream'
import { deflateSync } from 'node:zlib'
import t from 'tap'
import {
  createBandwidth, MAX_PROBE_BYTES, measure, MIN_SAMPLE_BYTES, nextEstimate, PROBE_BYTES, probeBody
} from '../cluster/links/bandwidth.js'
import { systemClock } from '../api/clock.js'
import { manualClock } from '../testing/manual-clock.js'
import type { Estimate, TransferSample } from '../cluster/links/bandwidth.js'

const MIB = 1024 * 1024

t.test('the estimate after one more sample', (t) => {
  const check = (
    title: string, previous: Estimate | null, sample: Partial<TransferSample>, bytesPerSecond: number | null
  ): void => {
    const next = nextEstimate(previous, { bytes: MIB, ms: 1000, atMs: 0, ...sample }, 60_000)
    t.equal(next?.bytesPerSecond ?? null, bytesPerSecond, title)
  }
  const old: Estimate = { bytesPerSecond: 8 * MIB, atMs: 0 }
  check('the first', null, {}, MIB)
  check('one byte too small', null, { bytes: MIN_SAMPLE_BYTES - 1 }, null)
  check('too small changes nothing', old, { bytes: 100, ms: 0.001, atMs: 1e9 }, 8 * MIB)
  for (const ms of [0, -1, NaN, Infinity]) check(`${ms} ms`, null, { ms }, ms === Infinity ? 0 : null)
  check('no number of bytes', old, { bytes: NaN }, 8 * MIB)
  check('a faster one is believed at once', old, { ms: 100 }, 10 * MIB)
  check('a slower one at the same time is not', old, {}, 8 * MIB)
  check('after one half-life only half the old stands', old, { atMs: 60_000 }, 4 * MIB)
  check('after two, a quarter', old, { atMs: 120_000 }, 2 * MIB)
  check('an old one gives way', old, { atMs: 600_000 }, MIB)
  check('a clock that goes back ages nothing', { ...old, atMs: 9e9 }, {}, 8 * MIB)
  t.end()
})

t.test('slow samples one after the other wear an old estimate down, whatever their rhythm', (t) => {
  const after = (steps: number): number | undefined => {
    let estimate: Estimate | null = { bytesPerSecond: 64 * MIB, atMs: 0 }
    for (let i = 1; i <= steps; i++) {
      estimate = nextEstimate(estimate, { bytes: MIB, ms: 1000, atMs: i * 120_000 / steps }, 60_000)
    }
    return estimate?.bytesPerSecond
  }
  for (const steps of [1, 2, 7, 100]) t.ok(Math.abs((after(steps) ?? 0) - 16 * MIB) < 1, `${steps} samples`)
  t.end()
})

t.test('estimates by link', async (t) => {
  const clock = manualClock()
  const links = createBandwidth(clock)
  t.equal(links.bytesPerSecond('a'), null)
  links.sample('a', { bytes: 1000, ms: 1 })
  t.equal(links.bytesPerSecond('a'), null, 'not on small transfers')
  links.sample('a', { bytes: 3 * MIB, ms: 3000 })
  links.sample('b', { bytes: 2 * MIB, ms: 1000 })
  t.same([links.bytesPerSecond('a'), links.bytesPerSecond('b')], [MIB, 2 * MIB])
  await clock.advance(3_600_000)
  t.equal(links.bytesPerSecond('b'), 2 * MIB, 'an idle link keeps its estimate')
  links.sample('b', { bytes: MIB, ms: 1000 })
  t.equal(links.bytesPerSecond('b'), MIB, 'which the next transfer replaces')
  links.forget('b')
  t.equal(links.bytesPerSecond('b'), null)
})

t.test('the body of a probe', async (t) => {
  const check = async (bytes: number): Promise<void> => {
    const chunks = await probeBody(bytes, randomBytes).toArray() as Buffer[]
    const all = Buffer.concat(chunks)
    t.equal(all.length, bytes)
    if (bytes > 1000) t.ok(deflateSync(all).length >= bytes, 'nothing to compress')
  }
  await check(1)
  await check(64 * 1024 + 1)
  await check(MIB)
  for (const bytes of [0, -1, 1.5, NaN, MAX_PROBE_BYTES + 1]) {
    const refused = new RangeError(`bytes: ${bytes} is not an integer of 1 to 8388608`)
    t.throws(() => probeBody(bytes, randomBytes), refused)
  }
})

t.test('a probe is made as fast as it is taken', async (t) => {
  let made = 0
  const body = probeBody(MAX_PROBE_BYTES, (size) => { made += size; return Buffer.alloc(size) })
  body.once('readable', () => {})
  await new Promise((resolve) => { setImmediate(resolve) })
  t.ok(made > 0 && made < MIB, `${made} bytes wait`)
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
  await t.rejects(measure(endless, systemClock), /over 8388608 bytes/)
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

t.test('a probe in this process gives an estimate', async (t) => {
  const links = createBandwidth(systemClock)
  links.sample('self', await measure(probeBody(PROBE_BYTES, randomBytes), systemClock))
  t.ok((links.bytesPerSecond('self') ?? 0) > 0)
})
