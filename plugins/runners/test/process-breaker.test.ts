import t from 'tap'
import { afterFailure, restartDelayMs, CLOSED, type Failure } from '../process/breaker.js'
import { DEFAULT_LIMITS } from '../process/limits.js'

t.test('backoff doubles to its cap, jitter on top', (t) => {
  const check = (attempts: number, random: number, expected: number): void => {
    const actual = restartDelayMs(attempts, DEFAULT_LIMITS, () => random)
    t.equal(actual, expected, `attempt ${attempts}, random ${random}`)
  }
  check(1, 0, 1_000)
  check(2, 0, 2_000)
  check(3, 0, 4_000)
  check(5, 0, 16_000)
  check(6, 0, 30_000)
  check(1_000, 0, 30_000)
  check(1, 0.5, 1_125)
  check(6, 0.8, 36_000)
  t.end()
})

/** Passes failures to the breaker; returns each decision as a delay in ms or `stop`. */
function verdicts (failures: Partial<Failure>[]): (number | string)[] {
  let state = CLOSED
  return failures.map((failure) => {
    const whole = { nowMs: 0, readyMs: 0, wedged: false, ...failure }
    const next = afterFailure(state, whole, DEFAULT_LIMITS, () => 0)
    state = next.state
    return next.verdict.giveUp ? 'stop' : next.verdict.delayMs
  })
}

t.test('three failures in 60 s end it; a wedge ends it at once; ten good minutes forget', (t) => {
  const check = (name: string, failures: Partial<Failure>[], expected: (number | string)[]): void => {
    t.strictSame(verdicts(failures), expected, name)
  }
  const at = (...times: number[]): Partial<Failure>[] => times.map((nowMs) => ({ nowMs }))
  check('three at once', at(0, 1_000, 3_000), [1_000, 2_000, 'stop'])
  check('the third just inside the window', at(0, 30_000, 59_999), [1_000, 2_000, 'stop'])
  check('the third just outside the window', at(0, 30_000, 60_000), [1_000, 2_000, 4_000])
  const slow = at(0, 40_000, 80_000, 120_000, 160_000, 200_000, 240_000)
  check('slow failures go on with growing waits', slow.map((one) => ({ ...one, readyMs: 1 })),
    [0, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
  check('what never comes to be ready ends', slow.slice(0, 5), [1_000, 2_000, 4_000, 8_000, 'stop'])
  check('ready once in between', [...slow.slice(0, 4), { nowMs: 150_000, readyMs: 1 }, ...slow.slice(5)],
    [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
  check('it was ready, and fails for the first time', [{ readyMs: 1 }], [0])
  check('a wedge', [{ wedged: true }], ['stop'])
  check('ready for 10 min between', [...at(0, 1_000), { nowMs: 700_000, readyMs: 600_000 }],
    [1_000, 2_000, 0])
  check('ready for less', [...at(0, 1_000), { nowMs: 600_000, readyMs: 599_999 }], [1_000, 2_000, 4_000])
  t.end()
})
