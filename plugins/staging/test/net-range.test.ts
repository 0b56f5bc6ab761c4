import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { readRange, UploadLimiter } from '../peers/send-file.js'
import type { ByteRange } from '../transfer/types.js'

const cases: [string | undefined, number, ByteRange | 'whole' | 'unsatisfiable'][] = [
  [undefined, 10, 'whole'], ['', 10, 'whole'], ['bytes=0-9', 10, { start: 0, end: 10 }],
  ['bytes=0-0', 10, { start: 0, end: 1 }], [' bytes=3-4 ', 10, { start: 3, end: 5 }],
  ['bytes=5-', 10, { start: 5, end: 10 }], ['bytes=5-99', 10, { start: 5, end: 10 }],
  ['bytes=9-', 10, { start: 9, end: 10 }], ['bytes=10-', 10, 'unsatisfiable'],
  ['bytes=10-20', 10, 'unsatisfiable'], ['bytes=0-', 0, 'unsatisfiable'], ['bytes=-0', 10, 'unsatisfiable'],
  ['bytes=-3', 10, { start: 7, end: 10 }], ['bytes=-30', 10, { start: 0, end: 10 }],
  ['bytes=-1', 0, 'unsatisfiable'], ['bytes=5-2', 10, 'whole'], ['bytes=20-12', 10, 'whole'],
  ['bytes=-', 10, 'whole'], ['bytes=', 10, 'whole'], ['bytes=0-1,3-4', 10, 'whole'],
  ['bytes=0-1, 3-', 10, 'whole'],
  ['chunks=0-1', 10, 'whole'], ['bytes=a-b', 10, 'whole'], ['bytes=0x1-2', 10, 'whole'],
  ['bytes=--5', 10, 'whole'], ['bytes=1-2-3', 10, 'whole'], ['bytes=1.5-2', 10, 'whole'],
  ['bytes=-5-', 10, 'whole'], ['bytes=+1-2', 10, 'whole'], [`bytes=0-${'9'.repeat(400)}`, 10, 'whole'],
  ['bytes=0-999999999999999', 10, { start: 0, end: 10 }], ['bytes=999999999999999-', 10, 'unsatisfiable'],
  ['bytes=0-9\r\nx: y', 10, 'whole']
]
for (const [header, size, expected] of cases) {
  t.strictSame(readRange(header, size), expected, `${JSON.stringify(header?.slice(0, 40))} of ${size}`)
}

/** Adds a name to `into` when the promise settles. */
function noted (promise: Promise<unknown>, name: string, into: string[]): void {
  promise.then(() => { into.push(name) },
    (error: unknown) => { into.push(`${name}: ${(error as Error).message}`) })
}

t.test('an uplink grants bytes at its rate, to all in the order they came', async (t) => {
  const clock = manualClock()
  const uplink = new UploadLimiter(1000, clock)
  const { signal } = new AbortController()
  const done: string[] = []
  noted(uplink.take(500, signal), 'a', done)
  noted(uplink.take(1000, signal), 'b', done)
  noted(uplink.take(1, signal), 'c', done)
  await clock.advance(0)
  t.same(done, ['a'], 'the first goes at once')
  await clock.advance(499)
  t.same(done, ['a'])
  await clock.advance(1)
  t.same(done, ['a', 'b'], 'the next when those before are through')
  await clock.advance(999)
  t.same(done, ['a', 'b'])
  await clock.advance(1)
  t.same(done, ['a', 'b', 'c'])
})

t.test('time nobody used is no credit', async (t) => {
  const clock = manualClock()
  const uplink = new UploadLimiter(1000, clock)
  const { signal } = new AbortController()
  await clock.advance(3600_000)
  const done: string[] = []
  noted(uplink.take(2000, signal), 'a', done)
  noted(uplink.take(1, signal), 'b', done)
  await clock.advance(0)
  await clock.advance(1999)
  t.same(done, ['a'])
  await clock.advance(1)
  t.same(done, ['a', 'b'])
})

t.test('who waits leaves with the reason of the signal', async (t) => {
  const clock = manualClock()
  const uplink = new UploadLimiter(10, clock)
  const abort = new AbortController()
  const done: string[] = []
  noted(uplink.take(10, abort.signal), 'a', done)
  noted(uplink.take(10, abort.signal), 'b', done)
  await clock.advance(0)
  abort.abort(new Error('gone'))
  await clock.advance(0)
  t.same(done, ['a', 'b: gone'])
})

t.test('without a limit nobody waits', async (t) => {
  const uplink = new UploadLimiter(null, manualClock())
  const { signal } = new AbortController()
  for (let i = 0; i < 100; i++) await uplink.take(2 ** 40, signal)
  t.pass('all went at once')
})
