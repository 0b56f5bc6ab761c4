import t from 'tap'
import { bench, hear, lives, until } from './process-kit.js'
import type { RunnerLimits } from '../process/limits.js'

t.test('T-R01: a runner killed mid-stream is lost once and comes back', async (t) => {
  const { ready, open, pid, supervisor, kinds, failures } = bench(t)
  await ready()
  const first = pid()
  const queued: Promise<{ end: string }>[] = []
  const heard = await hear(open({ mode: 'untilCancelled' }), (index) => {
    if (index === 0) queued.push(hear(open({ mode: 'count', chunks: 1 })))
    if (index === 3) process.kill(first, 'SIGKILL')
  })
  t.equal(heard.end, 'instance_lost')
  t.match(heard.error?.cause, /ended by SIGKILL while serving/)
  t.equal((await Promise.all(queued))[0]?.end, 'instance_lost', 'what waited for a place is lost too')
  t.equal((await hear(open({ mode: 'count', chunks: 1 }))).end, 'instance_lost', 'what comes too early too')
  await ready()
  t.not(pid(), first)
  t.equal((await hear(open({ mode: 'count', chunks: 2 }))).end, 'end')
  t.equal(supervisor.report().restarts, 1)
  t.notOk(kinds().includes('Failed'))
  t.strictSame(failures, [])
})

t.test('T-R03: a runner that never starts is tried three times and given up once', async (t) => {
  const loads = { exit: /exited with code 3 while loading/, throw: /no such weights/ }
  for (const [load, expected] of Object.entries(loads)) {
    const { failed, failures, kinds, supervisor } = bench(t, { load })
    t.match(await failed(), expected)
    t.strictSame(failures.map((failure) => failure.attempts), [3])
    t.equal(kinds().filter((kind) => kind === 'Connecting').length, 3)
    t.equal(kinds().filter((kind) => kind === 'Failed').length, 1)
    t.equal(supervisor.report().restarts, 2)
    t.equal(supervisor.report().phase, 'no process')
  }
})

t.test('an engine that throws in its warmup', async (t) => {
  const { failed } = bench(t, { warmup: 'throw' }, { limits: { breakerFailures: 1 } })
  t.match(await failed(), /engine failed \(warmup\): warmup gave silence/)
})

t.test('faults in a task that end the runner: one terminal, then ready again', async (t) => {
  const check = async (
    mode: string, why: RegExp, limits: Partial<RunnerLimits> = {}, payload: Record<string, unknown> = {}
  ): Promise<void> => {
    const { ready, open, pid, supervisor } = bench(t, {}, { limits })
    await ready()
    const first = pid()
    const heard = await hear(open({ mode, task: 1, ...payload }))
    t.equal(heard.end, 'instance_lost', mode)
    t.match(heard.error?.cause, why, mode)
    t.ok(heard.payloads.length >= 1, `${mode}: what came before is delivered`)
    await ready()
    t.notOk(lives(first), mode)
    t.not(pid(), first)
    t.equal((await hear(open({ mode: 'count', chunks: 1 }))).end, 'end', mode)
    t.match(supervisor.report().flightRecorder.map((entry) => entry.what).join('\n'), why)
  }
  const quick = { workMinMs: 500, loopBlockedMs: 60_000 }
  await check('block', /ended by SIGKILL while serving/, { loopBlockedMs: 1_000 })
  await check('workHangs', /work "decode" of 1 units/, quick)
  await check('blockAfterIo', /ended by SIGKILL while serving/, { loopBlockedMs: 1_000 })
  await check('exit', /exited with code 9 while serving/)
  await check('rejectLater', /engine failed \(serve\): nobody waits for this/)
  await check('garbage', /broke the frame protocol: frame of 1195725856 bytes/)
  await check('notJson', /broke the frame protocol: frame header is not JSON/)
  await check('truncate', /ended by SIGKILL/)
  await check('unknownTask', /broke the frame protocol: a frame for unknown task 4000000/)
  await check('floodControl', /broke the frame protocol: too many control frames/)
  await check('floodChunks', /broke the frame protocol: a chunk came without credit/)
})

t.test('faults in a task that leave the runner as it is', async (t) => {
  const { ready, open, pid, lines } = bench(t)
  await ready()
  const first = pid()
  let task = 0
  const check = async (mode: string, chunks: number, end: string, message = /./): Promise<void> => {
    task += 1
    const heard = await hear(open({ mode, task }))
    t.equal(heard.end, end, mode)
    t.equal(heard.payloads.length, chunks, mode)
    if (heard.error !== null) t.match(heard.error.message, message, mode)
  }
  await check('refuse', 0, 'invalid_payload', /^speed must be 0.5 to 2$/)
  await check('throwMid', 1, 'provider_error', /^The engine failed while serving the task.$/)
  await check('badPayload', 0, 'provider_error')
  await check('badMedia', 0, 'provider_error')
  await check('bigint', 0, 'provider_error')
  await check('noSuchMode', 0, 'provider_error')
  await check('duplicate', 2, 'end')
  await check('gap', 1, 'provider_error', /gap: chunk 1 is missing/)
  await check('twoEnds', 1, 'end')
  t.equal(pid(), first, 'the same process all along')
  const logged = lines.filter((line) => line.message === 'the engine threw while serving a task')
  t.ok(logged.some((line) => String(line.fields['error']).includes('secret path')), 'the cause is in the log')
})

t.test('details of an engine\'s refusal arrive as they are', async (t) => {
  const { ready, open } = bench(t)
  await ready()
  t.strictSame((await hear(open({ mode: 'refuse' }))).error?.details, { param: 'speed', max: 2 })
})

t.test('T-R12: a runner that grows beyond its share is killed', async (t) => {
  const limits = { rssPollMs: 50 }
  const { ready, open, pid, supervisor } = bench(t, {}, { memoryLimitBytes: 250e6, limits })
  await ready()
  const first = pid()
  const heard = await hear(open({ mode: 'grow', mebibytesPerStep: 4 }))
  t.equal(heard.end, 'instance_lost')
  t.match(heard.error?.cause,
    /grew to \d+ MiB of resident memory; its limit is 238 MiB \(plugins\.runners\.memory_limit_mb\)/)
  await ready()
  t.not(pid(), first)
  t.equal(supervisor.report().restarts, 1)
})

t.test('a runner that is ready long enough starts with a clean record', async (t) => {
  const { ready, pid, failures, supervisor } = bench(t, {}, { limits: { readyClearMs: 1 } })
  for (let round = 0; round < 4; round++) {
    await ready()
    const process = pid()
    await until('a moment of being ready', () => supervisor.report().secondsInStatus > 0.01)
    globalThis.process.kill(process, 'SIGKILL')
    await until('noticed', () => supervisor.report().pid !== process)
  }
  await ready()
  t.strictSame(failures, [])
})
