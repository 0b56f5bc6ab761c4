import t from 'tap'
import { Announcer } from '../process/activity.js'
import {
  endedByWarmupWatchdog, passedDeadline, describeEnd, allowedMs, loadingMs, AnnouncedWork
} from '../process/deadlines.js'
import type { Watch, ExitFacts } from '../process/deadlines.js'
import { DEFAULT_LIMITS } from '../process/limits.js'
import type { WorkMessage } from '../process/messages.js'

t.test('how long work and loading may take', (t) => {
  const check = (units: number, msPerUnit: number, expected: number): void => {
    t.equal(allowedMs(units, msPerUnit, DEFAULT_LIMITS), expected, `${units} units of ${msPerUnit} ms`)
  }
  check(1, 0, 10_000)
  check(10, 100, 10_000)
  check(11, 100, 11_000)
  check(600, 100, 600_000)
  t.equal(loadingMs(1, DEFAULT_LIMITS), 120_000)
  t.equal(loadingMs(2.4e9, DEFAULT_LIMITS), 120_000)
  t.equal(loadingMs(40e9, DEFAULT_LIMITS), 2_000_000)
  t.end()
})

const message = (part: Partial<WorkMessage>): WorkMessage => ({ open: [], closed: [], measured: [], ...part })

t.test('announced work is overdue by its measured cost', (t) => {
  const work = new AnnouncedWork(DEFAULT_LIMITS)
  t.equal(work.overdue(1e9), null)
  work.apply(message({ open: [{ id: 1, label: 'a', units: 2 }] }), 0)
  t.ok(work.busy)
  t.equal(work.overdue(10_000), null)
  t.match(work.overdue(10_001), { id: 1, label: 'a', units: 2, runningMs: 10_001, allowedMs: 10_000 })
  work.apply(message({ closed: [1], measured: [{ label: 'a', units: 2, ms: 6_000 }] }), 20_000)
  t.notOk(work.busy)
  work.apply(message({ open: [{ id: 2, label: 'a', units: 4 }, { id: 3, label: 'b', units: 4 }] }), 20_000)
  t.equal(work.overdue(30_001)?.id, 3, 'b has no measurement')
  work.apply(message({ closed: [3] }), 30_000)
  t.equal(work.overdue(140_000), null, '4 units of 3 s may take 120 s')
  t.equal(work.overdue(140_001)?.id, 2)
  t.equal(work.quietSince(150_000), 150_000, 'it works')
  work.apply(message({ closed: [2] }), 160_000)
  t.equal(work.quietSince(170_000), 160_000)
  t.throws(() => {
    const open = Array.from({ length: 1_100 }, (_, id) => ({ id, label: 'c', units: 1 }))
    work.apply(message({ open }), 0)
  }, /more than 1024/)
  t.end()
})

t.test('deadlines by phase', (t) => {
  const check = (watch: Partial<Watch>, nowMs: number, expected: string | null): void => {
    const whole: Watch = {
      phase: 'serving', since: 0, modelBytes: 1, overdueWork: null, cancelledSince: null, quietSince: 0,
      ...watch
    }
    const passed = passedDeadline(whole, DEFAULT_LIMITS, nowMs)
    t.equal(passed?.key ?? null, expected, `${whole.phase} at ${nowMs}`)
    t.equal(passed?.wedged ?? false, expected === 'warmup')
  }
  const work = { id: 5, label: 'a', units: 1, runningMs: 11_000, allowedMs: 10_000 }
  check({ phase: 'connecting' }, 120_000, null)
  check({ phase: 'connecting' }, 120_001, 'first report')
  check({ phase: 'loading' }, 120_000, null)
  check({ phase: 'loading', overdueWork: work }, 120_000, null)
  check({ phase: 'loading' }, 120_001, 'loading')
  check({ phase: 'loading', modelBytes: 20e9 }, 1_000_000, null)
  check({ phase: 'warmup', overdueWork: work }, 300_750, null)
  check({ phase: 'warmup' }, 300_751, 'warmup')
  check({}, 1e9, null)
  check({ overdueWork: work }, 0, 'work 5')
  check({ cancelledSince: 0 }, 10_000, null)
  check({ cancelledSince: 0 }, 10_001, 'cancel')
  check({ cancelledSince: 0, quietSince: 60_000 }, 60_000, null)
  check({ cancelledSince: 0, quietSince: 60_000 }, 70_000, null)
  check({ cancelledSince: 0, quietSince: 60_000 }, 70_001, 'cancel')
  t.end()
})

t.test('a kill in warmup is the watchdog\'s when most of the deadline has passed', (t) => {
  const check = (phase: Watch['phase'], signal: string | null, nowMs: number, expected: boolean): void => {
    const actual = endedByWarmupWatchdog({ phase, since: 0 }, signal, DEFAULT_LIMITS, nowMs)
    t.equal(actual, expected, `${phase} ${signal} ${nowMs}`)
  }
  check('warmup', 'SIGKILL', 299_900, true)
  check('warmup', 'SIGKILL', 100_000, false)
  check('warmup', 'SIGSEGV', 299_900, false)
  check('serving', 'SIGKILL', 299_900, false)
  t.end()
})

t.test('the end of a process: asked for, the node\'s reason, or its own exit', (t) => {
  const check = (ending: Partial<ExitFacts>, expected: object): void => {
    const whole: ExitFacts = {
      stopping: false,
      failure: null,
      phase: 'serving',
      since: 0,
      readyAt: 100,
      exit: { code: 3, signal: null },
      ...ending
    }
    t.match(describeEnd(whole, DEFAULT_LIMITS, 300_100), { exitCode: whole.exit?.code ?? null, ...expected })
  }
  const failure = { message: 'too large', wedged: false }
  const killed = { code: null, signal: 'SIGKILL' }
  check({}, { message: 'the runner process exited with code 3 while serving', readyMs: 300_000 })
  check({ exit: killed }, { message: 'the runner process was ended by SIGKILL while serving' })
  check({ exit: killed, failure }, failure)
  check({ exit: killed, failure, stopping: true }, { message: null })
  const crash = { code: null, signal: 'SIGSEGV' }
  check({ exit: crash, phase: 'loading' }, { unloadable: 'load_failed' })
  check({ exit: killed, phase: 'loading' }, { unloadable: undefined })
  check({ exit: crash, phase: 'warmup' }, { unloadable: undefined })
  const wedge = { message: /^warmup did not/, wedged: true, readyMs: 0 }
  check({ exit: killed, phase: 'warmup', readyAt: null }, wedge)
  t.end()
})

/** An announcer with a manual clock, connected to the node's list of announced work. */
function bench () {
  let nowMs = 0
  const timers: { at: number, fn: () => void }[] = []
  const sent: WorkMessage[] = []
  const work = new AnnouncedWork(DEFAULT_LIMITS)
  const announcer = new Announcer({
    now: () => nowMs,
    after: (ms, fn) => { timers.push({ at: nowMs + ms, fn }) },
    send: (message) => { sent.push(message); work.apply(message, nowMs) }
  })
  /** Moves the clock; timers fire only while no call blocks the thread. */
  const pass = (ms: number, blocked: boolean): void => {
    nowMs += ms
    while (!blocked && (timers[0]?.at ?? Infinity) <= nowMs) timers.shift()?.fn()
  }
  const call = (label: string, units: number, ms: number): void => {
    const handle = announcer.begin(label, units)
    pass(ms, true)
    if (!work.busy) throw new Error(`${label} ran unannounced`)
    announcer.end(handle)
    pass(0, false)
  }
  return { announcer, work, sent, pass, call }
}

t.test('long calls are announced one by one and measured', (t) => {
  const { sent, call, pass, work } = bench()
  for (let i = 0; i < 3; i++) call('decode', 4, 200)
  pass(10, false)
  t.strictSame(sent.flatMap((m) => m.open.map((o) => o.units)), [4, 4, 4])
  t.strictSame(sent.flatMap((m) => m.closed), [1, 2, 3])
  t.strictSame(sent.flatMap((m) => m.measured).reduce((sum, m) => sum + m.ms, 0), 600)
  t.notOk(work.busy)
  t.end()
})

t.test('short calls are coalesced and never unannounced', (t) => {
  const { sent, call, pass, work } = bench()
  for (let i = 0; i < 10_000; i++) call(`layer ${i % 100}`, 1, 0.1)
  pass(20, false)
  t.ok(sent.length < 400, `${sent.length} frames for 10,000 calls in one second`)
  const measuredMs = sent.flatMap((m) => m.measured).reduce((sum, m) => sum + m.ms, 0)
  t.ok(Math.abs(measuredMs - 1_000) < 1e-6, 'all time is measured')
  t.notOk(work.busy)
  t.end()
})

t.test('a call larger than the announcement above it is announced itself', (t) => {
  const { announcer, sent, pass } = bench()
  const first = announcer.begin('a', 1)
  pass(1, true)
  announcer.end(first)
  announcer.begin('a', 1_000)
  t.strictSame(sent.map((m) => m.open[0]?.units), [1, 1_000])
  t.end()
})

t.test('overlapping calls each have their announcement', (t) => {
  const { announcer, work, pass } = bench()
  const a = announcer.begin('a', 1)
  const b = announcer.begin('a', 1)
  announcer.end(a)
  pass(10, false)
  t.ok(work.busy, 'b is still open')
  announcer.end(b)
  pass(10, false)
  t.notOk(work.busy)
  t.end()
})
