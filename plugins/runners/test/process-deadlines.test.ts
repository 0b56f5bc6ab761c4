import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { bench, hear, lives, textOf, until } from './process-kit.js'

t.test('a runner that never reports is ended', async (t) => {
  // Uses a silent program, because a real runner could send its first report before a signal stops it.
  const { execPath } = process
  process.execPath = fileURLToPath(new URL('./fixtures/silent.sh', import.meta.url))
  const { failed } = bench(t, {}, { limits: { breakerFailures: 1, firstReportMs: 300 } })
  process.execPath = execPath
  t.match(await failed(), /the runner did not report within 0.3 s/)
})

t.test('T-R04: a warmup over its deadline is given up at once, with a CRITICAL line', async (t) => {
  for (const warmup of ['block', 'hang']) {
    process.env['SVC_WARMUP_DEADLINE_SECONDS'] = '1'
    const { failed, failures, lines, scratch, kinds } = bench(t, { warmup })
    delete process.env['SVC_WARMUP_DEADLINE_SECONDS']
    t.match(await failed(), /warmup did not finish within 1 s/)
    t.strictSame(failures.map((failure) => failure.attempts), [1])
    t.match(failures, [{ errorCode: 'warmup_timeout' }])
    t.strictSame(kinds(), ['Connecting', 'Connected', 'Loading', 'Loaded', 'WarmingUp', 'Failed'])
    t.ok(lines.some((line) => line.level === 'fatal' && line.message.startsWith('CRITICAL')))
    const log = join(scratch, 'runner.log')
    await until('the watchdog\'s own line', () => /CRITICAL warmup of test\/engine/.test(textOf(log)))
  }
})

t.test('a warmup that hangs on a starved machine is given up at once, too', async (t) => {
  process.env['SVC_WARMUP_DEADLINE_SECONDS'] = '1'
  const began = performance.now()
  const { failed, failures } =
    bench(t, { warmup: 'hang' }, { processorWaitMs: () => (performance.now() - began) / 2 })
  delete process.env['SVC_WARMUP_DEADLINE_SECONDS']
  t.match(await failed(), /warmup did not finish within 1 s/)
  t.match(failures, [{ errorCode: 'warmup_timeout', attempts: 1 }])
})

t.test('a load without progress is ended', async (t) => {
  const { failed } = bench(t, { load: 'hang' }, { limits: { breakerFailures: 1, loadMinMs: 300 } })
  t.match(await failed(), /loading 1 bytes made no progress for 0.3 s/)
})

t.test('T-R06: by the real limits a blocked runner ends after 12 s', async (t) => {
  const { ready, open } = bench(t)
  await ready()
  const heard = await hear(open({ mode: 'block' }))
  t.equal(heard.end, 'instance_lost')
  t.match(heard.error?.cause, /ended by SIGKILL while serving/)
})

t.test('work that is announced in small pieces is not overdue', async (t) => {
  const { ready, open, pid } = bench(t, {}, { limits: { workMinMs: 300 } })
  await ready()
  const first = pid()
  t.equal((await hear(open({ mode: 'work', calls: 40, ms: 25 }))).end, 'end')
  t.equal((await hear(open({ mode: 'work', calls: 3_000, ms: 0.2 }))).end, 'end')
  t.equal(pid(), first)
})

t.test('a cancel the engine does not honour costs it its process', async (t) => {
  const { ready, open, pid, supervisor } = bench(t, {}, { limits: { cancelMs: 300 } })
  await ready()
  const first = pid()
  const abort = new AbortController()
  const heard = await hear(open({ mode: 'ignoreCancel' }, abort.signal), () => { abort.abort() })
  t.equal(heard.end, 'cancelled', 'the reader does not wait for it')
  await until('killed', () => !lives(first))
  await ready()
  const record = supervisor.report().flightRecorder.map((entry) => entry.what)
  t.match(record.join('\n'), /a cancelled task was still running/)
})

t.test('time in which the machine has no processor for a runner is not held against it', async (t) => {
  let starved = true
  let looks = 0
  let waitedMs = 0
  const began = performance.now()
  const processorWaitMs = (): number => {
    looks++
    if (starved) waitedMs = performance.now() - began
    return waitedMs
  }
  const { ready, open, pid } = bench(t, {}, { limits: { cancelMs: 300 }, processorWaitMs })
  await ready()
  const first = pid()
  const abort = new AbortController()
  await hear(open({ mode: 'ignoreCancel' }, abort.signal), () => { abort.abort() })
  const seen = looks
  // Checks are 50 ms apart, so 20 of them take more than three times the deadline.
  await until('it was looked at often', () => looks > seen + 20)
  t.ok(lives(first))
  starved = false
  await until('killed', () => !lives(first))
})

t.test('an engine that falls silent mid-stream times out', async (t) => {
  const { ready, open } = bench(t, {}, { limits: { chunkIdleMs: 300, cancelMs: 300 } })
  await ready()
  const heard = await hear(open({ mode: 'silence' }))
  t.equal(heard.end, 'timeout')
  t.equal(heard.payloads.length, 1)
})
