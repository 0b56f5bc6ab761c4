import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ENGINE, bench, hear, lives, until } from './process-kit.js'

t.test('from start to ready to stopped, with progress and a report', async (t) => {
  const { supervisor, kinds, statuses, ready, pid, open, lines } = bench(t, { load: 'progress' })
  supervisor.start()
  await ready()
  t.strictSame([...new Set(kinds())],
    ['Connecting', 'Connected', 'Loading', 'Loaded', 'WarmingUp', 'Ready'])
  const layers = statuses.flatMap((s) => 'RunnerLoading' in s ? [s.RunnerLoading] : [])
  t.strictSame(layers.map((l) => l.layersLoaded), [0, 1, 2, 3, 4])
  t.strictSame(layers.map((l) => l.totalLayers), [4, 4, 4, 4, 4])
  t.ok(lines.some((line) => line.message === 'model loaded'))
  const heard = await hear(open({ mode: 'count', chunks: 3 }))
  t.strictSame(heard, { payloads: [{ i: 0 }, { i: 1 }, { i: 2 }], bytes: 0, end: 'end', error: null })
  t.strictSame(kinds().slice(-2), ['Running', 'Ready'])
  const process = pid()
  await until('memory seen', () => supervisor.report().rssBytes !== null)
  const report = supervisor.report()
  t.match(report, {
    runnerId: 'runner-1', instanceId: 'instance-1', modelId: 'test/engine', pid: process, processAlive: true,
    exitCode: null, statusKind: 'RunnerReady', phase: 'serving', restarts: 0, inProgressTasks: [],
    completedTaskCount: 1
  })
  t.ok(Number(report.rssBytes) > 1e7)
  t.ok(Number(report.secondsSinceForward) >= 0)
  t.ok(report.flightRecorder.some((entry) => entry.what === 'task task-1 ended'))
  await Promise.all([supervisor.stop(), supervisor.stop()])
  t.strictSame(kinds().slice(-2), ['ShuttingDown', 'Shutdown'])
  t.notOk(lives(process), 'the process and its memory are gone')
  t.match(supervisor.report(), { pid: null, processAlive: false, exitCode: 0, statusKind: 'RunnerShutdown' })
  t.strictSame((await hear(open({ mode: 'count', chunks: 1 }))).end, 'instance_lost')
  supervisor.start()
  t.strictSame(supervisor.status, { RunnerShutdown: {} }, 'stop cannot be taken back')
})

t.test('the runner sees no secrets and works in a folder of its own', async (t) => {
  process.env['SVC_TEST_SECRET'] = 'secret'
  process.env['SVC_LLAMA_SERVER_BIN'] = '/opt/llama'
  t.teardown(() => {
    delete process.env['SVC_TEST_SECRET']
    delete process.env['SVC_LLAMA_SERVER_BIN']
  })
  const { ready, open, scratch } = bench(t)
  await ready()
  const { payloads } = await hear(open({ mode: 'environment' }))
  const seen = payloads[0] as { env: Record<string, string>, cwd: string, umask: number, ppid: number }
  t.equal(seen.env['SVC_TEST_SECRET'], undefined)
  t.equal(seen.env['NODE_OPTIONS'], undefined)
  t.equal(seen.env['SVC_LLAMA_SERVER_BIN'], '/opt/llama')
  t.equal(seen.env['HOME'], join(scratch, 'work'))
  t.equal(seen.cwd, join(scratch, 'work'))
  t.equal(seen.umask, 0o077)
  t.equal(seen.ppid, process.pid)
})

t.test('the process is marked: pidfile, oom score, a group of its own', async (t) => {
  const { ready, pid, scratch, supervisor } = bench(t)
  await ready()
  const record = JSON.parse(readFileSync(join(scratch, 'runner.pid'), 'utf8')) as { pid: number }
  t.equal(record.pid, pid())
  t.equal(readFileSync(`/proc/${pid()}/oom_score_adj`, 'utf8').trim(), '500')
  t.equal(readFileSync(`/proc/${pid()}/stat`, 'utf8').split(') ')[1]?.split(' ')[2], String(pid()))
  await supervisor.stop()
  t.notOk(existsSync(join(scratch, 'runner.pid')))
})

t.test('T-R08: aborting reaches the engine and frees the place', async (t) => {
  const { ready, open, lines, supervisor } = bench(t)
  await ready()
  const abort = new AbortController()
  let abortedAt = 0
  const heard = await hear(open({ mode: 'untilCancelled' }, abort.signal), (index) => {
    if (index === 4) { abortedAt = index; abort.abort() }
  })
  t.equal(heard.end, 'cancelled')
  t.equal(heard.payloads.length, abortedAt + 1, 'nothing is delivered after the abort')
  await until('place freed', () => supervisor.report().inProgressTasks.length === 0)
  await until('the engine saw it', () => lines.some((l) => l.message === 'generator closed'))
  t.match(lines.find((l) => l.message === 'generator closed')?.fields, { aborted: true })
  t.equal((await hear(open({ mode: 'count', chunks: 2 }))).end, 'end')
})

t.test('leaving the loop cancels too', async (t) => {
  const { ready, open, lines } = bench(t)
  await ready()
  for await (const chunk of open({ mode: 'untilCancelled' })) {
    t.strictSame(chunk.payload, { i: 0 })
    break
  }
  await until('the engine saw it', () => lines.some((l) => l.message === 'generator closed'))
})

t.test('one at a time by default, a queue behind, then overloaded', async (t) => {
  const { ready, open, supervisor } = bench(t, {}, { maxQueued: 2 })
  await ready()
  const running = [1, 2, 3].map(() => hear(open({ mode: 'count', chunks: 4, delayMs: 40 })))
  await until('the first runs', () => supervisor.report().inProgressTasks.length === 1)
  const refused = await hear(open({ mode: 'count', chunks: 1 }))
  t.equal(refused.end, 'overloaded')
  t.match(refused.error?.details, { retryAfterSeconds: 1, running: 1, waiting: 2 })
  t.strictSame((await Promise.all(running)).map((heard) => heard.end), ['end', 'end', 'end'])
  t.equal(supervisor.report().completedTaskCount, 3)
})

t.test('several at once where allowed', async (t) => {
  const { ready, open, supervisor } = bench(t, {}, { maxConcurrent: 3 })
  await ready()
  const abort = new AbortController()
  const streams = [1, 2, 3].map(() => hear(open({ mode: 'untilCancelled' }, abort.signal)))
  await until('all run', () => supervisor.report().inProgressTasks.length === 3)
  abort.abort()
  const ends = (await Promise.all(streams)).map((heard) => heard.end)
  t.strictSame(ends, ['cancelled', 'cancelled', 'cancelled'])
})

t.test('a reader that stops reading stops the engine at the end of its credit', async (t) => {
  const { ready, open, lines } = bench(t, {}, { maxConcurrent: 2, limits: { windowChunks: 4 } })
  const pulled = (): number => lines.filter((line) => line.message === 'pulled').length
  await ready()
  const stream = open({ mode: 'pulls', chunks: 20 })[Symbol.asyncIterator]()
  await stream.next()
  await until('credit used up', () => pulled() === 5)
  t.equal((await hear(open({ mode: 'count', chunks: 30 }))).end, 'end', 'others are served meanwhile')
  t.equal(pulled(), 5, 'one read, four ahead')
  let read = 1
  for (let next = await stream.next(); next.done !== true; next = await stream.next()) read += 1
  t.equal(read, 20)
})

t.test('bytes beside the chunks arrive whole, through many windows', async (t) => {
  const { ready, open } = bench(t)
  await ready()
  const heard = await hear(open({ mode: 'count', chunks: 300, bytes: 100_001 }), (index, chunk) => {
    if (chunk.media?.every((byte) => byte === 7) !== true) throw new Error(`chunk ${index} is damaged`)
  })
  t.equal(heard.end, 'end')
  t.equal(heard.bytes, 300 * 100_001)
})

t.test('a stop ends what runs, and escalates when it has to', async (t) => {
  for (const close of ['ok', 'throw', 'hang', 'block']) {
    const { ready, open, supervisor, pid, kinds } = bench(t, { close })
    await ready()
    const process = pid()
    const stream = hear(open({ mode: 'untilCancelled' }))
    await until('running', () => supervisor.report().inProgressTasks.length === 1)
    await supervisor.stop()
    t.equal((await stream).end, 'instance_lost', close)
    t.notOk(lives(process), close)
    t.equal(kinds().at(-1), 'Shutdown')
  }
})

t.test('a stop while loading and while waiting to restart', async (t) => {
  const loading = bench(t, { load: 'hang' })
  await until('loading', () => 'RunnerLoading' in loading.supervisor.status)
  await loading.supervisor.stop()
  t.strictSame(loading.failures, [])
  const waiting = bench(t, { load: 'exit' }, { limits: { backoffFirstMs: 60_000, backoffMaxMs: 60_000 } })
  await until('waiting', () => waiting.supervisor.report().phase === 'waiting to restart')
  await waiting.supervisor.stop()
  t.strictSame(waiting.kinds().slice(-3), ['Idle', 'ShuttingDown', 'Shutdown'])
})

t.test('what the engine fails at when it loads is a code', async (t) => {
  const codes = { template: 'chat_template_unreadable', damaged: 'load_failed' }
  for (const [load, errorCode] of Object.entries(codes)) {
    const { failed, failures } = bench(t, { load }, { limits: { breakerFailures: 1 } })
    t.match(await failed(), /engine failed \(load\)/)
    t.match(failures, [{ errorCode }])
  }
})

t.test('an engine module that is not there or is none', async (t) => {
  const check = async (engineModule: string, expected: RegExp): Promise<void> => {
    const { failed, failures } = bench(t, {}, { engineModule, limits: { breakerFailures: 1 } })
    t.match(await failed(), expected)
    t.equal(failures[0]?.attempts, 1)
  }
  await check(ENGINE.replace('engine.mjs', 'missing.mjs'), /engine failed \(import\): Cannot find module/)
  await check(ENGINE.replace('engine.mjs', 'not-an-engine.mjs'), /no default export with a load function/)
})
