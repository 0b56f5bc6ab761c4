import t from 'tap'
import { bench, hear, until } from './process-kit.js'

const notes = (made: ReturnType<typeof bench>): string[] =>
  made.supervisor.report().flightRecorder.map((entry) => entry.what)

t.test('the flight recorder tells the life of a runner without a word of what was asked', async (t) => {
  const made = bench(t)
  await made.ready()
  await until('memory seen', () => made.supervisor.report().rssBytes !== null)
  t.equal((await hear(made.open({ mode: 'count', chunks: 3, prompt: 'canary words' }))).end, 'end')
  await made.supervisor.stop()
  const told = notes(made)
  const order = [
    /^status RunnerConnecting$/, /^process \d+ started$/, /^status RunnerLoading$/, /^status RunnerLoaded$/,
    /^status RunnerWarmingUp$/, /^status RunnerReady$/,
    /^task task-1 \(test\) started$/, /^task task-1 ended$/,
    /^status RunnerShuttingDown$/, /^process stopped \(exit 0\)$/, /^status RunnerShutdown$/
  ]
  const places = order.map((pattern) => told.findIndex((what) => pattern.test(what)))
  t.same(places, [...places].sort((a, b) => a - b), told.join('\n'))
  t.notOk(places.includes(-1), told.join('\n'))
  t.ok(told.some((what) => /^memory \d+ MiB$/.test(what)))
  t.notMatch(told.join('\n'), /canary|RunnerRunning/)
  t.match(made.supervisor.report().chunks, { received: 3, dropped: 0, buffered: 0 })
})

t.test('tasks that wait are counted with their time', async (t) => {
  const made = bench(t, {}, { maxConcurrent: 1, maxQueued: 4 })
  await made.ready()
  const slow = hear(made.open({ mode: 'count', chunks: 3, delayMs: 40 }))
  const next = hear(made.open({ mode: 'count', chunks: 1 }))
  await until('one waits', () => made.supervisor.report().waitingTasks === 1)
  await Promise.all([slow, next])
  t.match(made.supervisor.report(), { waitingTasks: 0, admittedTaskCount: 2 })
  t.ok(made.supervisor.report().waitedSeconds > 0.03, `${made.supervisor.report().waitedSeconds} s`)
})
