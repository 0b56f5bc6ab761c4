import t from 'tap'
import { Admission, retryAfter } from '../process/admission.js'
import { CreditReturn, CreditWindow } from '../process/credits.js'
import { RunnerError } from '../process/errors.js'

const never = new AbortController().signal

/** The reason a promise is refused with, or `admitted`. */
async function outcome (entering: Promise<void>): Promise<string> {
  return await entering.then(() => 'admitted', (error: unknown) => (error as RunnerError).reason)
}

t.test('places first, then a bounded queue in order, then overloaded', async (t) => {
  const admission = new Admission(2, 2)
  t.equal(await outcome(admission.enter(never)), 'admitted')
  t.equal(await outcome(admission.enter(never)), 'admitted')
  const order: number[] = []
  const third = admission.enter(never).then(() => { order.push(3) })
  const fourth = admission.enter(never).then(() => { order.push(4) })
  t.equal(admission.queued, 2)
  const refused = await admission.enter(never).then(() => null, (error: unknown) => error as RunnerError)
  t.match(refused, { reason: 'overloaded', details: { active: 2, queued: 2, retryAfterSeconds: 1 } })
  admission.leave(30_000)
  await third
  t.strictSame(order, [3])
  admission.leave(30_000)
  await fourth
  t.strictSame([admission.active, admission.queued], [2, 0])
  admission.leave(null)
  admission.leave(null)
  t.equal(admission.active, 0)
})

t.test('a waiting task may be cancelled or refused', async (t) => {
  const admission = new Admission(1, 8)
  await admission.enter(never)
  const abort = new AbortController()
  const waiting = outcome(admission.enter(abort.signal))
  abort.abort()
  t.equal(await waiting, 'cancelled')
  t.equal(admission.queued, 0)
  t.equal(await outcome(admission.enter(abort.signal)), 'cancelled', 'aborted before')
  const lost = outcome(admission.enter(never))
  admission.refuseAll(new RunnerError('instance_lost', 'gone'))
  t.equal(await lost, 'instance_lost')
  admission.leave(null)
  t.equal(admission.active, 0)
})

t.test('retry-after follows the measured service rate', (t) => {
  const check = (queued: number, slots: number, meanMs: number | null, expected: number): void => {
    t.equal(retryAfter(queued, slots, meanMs), expected, `${queued} queued, ${slots} slots, ${meanMs} ms`)
  }
  check(8, 1, null, 1)
  check(8, 1, 100, 1)
  check(8, 1, 2_000, 16)
  check(8, 4, 2_000, 4)
  check(0, 1, 2_500, 3)
  check(8, 1, 1e9, 300)
  t.end()
})

t.test('a window closes at zero chunks or bytes and lets one large chunk pass', (t) => {
  const check = (sizes: number[], expected: boolean): void => {
    const window = new CreditWindow(3, 100)
    for (const size of sizes) window.take(size)
    t.equal(window.open, expected, sizes.join(', '))
  }
  check([], true)
  check([1, 1], true)
  check([1, 1, 1], false)
  check([99], true)
  check([100], false)
  check([99, 5_000], false)
  const window = new CreditWindow(3, 100)
  window.take(5_000)
  window.grant(1, 4_900)
  t.equal(window.open, false)
  window.grant(0, 1)
  t.equal(window.open, true)
  t.end()
})

t.test('credit goes back in quarters of the window', (t) => {
  const back = new CreditReturn(8, 400)
  t.strictSame([1, 1, 1, 150, 1, 1].map((bytes) => back.taken(bytes)), [
    null, { chunks: 2, bytes: 2 }, null, { chunks: 2, bytes: 151 }, null, { chunks: 2, bytes: 2 }
  ])
  t.end()
})
