import t from 'tap'
import { bench, hear, until } from './process-kit.js'

const notes = (made: ReturnType<typeof bench>): string[] =>
  made.supervisor.report().flightRecorder.map((entry) => entry.what)

t.test('an operator ends what a runner works on; a runner that lets go goes on', async (t) => {
  const made = bench(t, {}, { maxConcurrent: 2 })
  await made.ready()
  t.same(await made.supervisor.cancelTasks(1000), { taskIds: [], restarted: false }, 'nothing to cancel')
  const streams = [1, 2].map(() => hear(made.open({ mode: 'untilCancelled' })))
  await until('both run', () => made.supervisor.report().inProgressTasks.length === 2)
  const pid = made.pid()
  t.same(await made.supervisor.cancelTasks(10_000), { taskIds: ['task-1', 'task-2'], restarted: false })
  for (const { end } of await Promise.all(streams)) t.equal(end, 'cancelled')
  await until('ready again', () => 'RunnerReady' in made.supervisor.status)
  t.match(made.supervisor.report(), {
    pid, restarts: 0, inProgressTasks: [], completedTaskCount: 0, slots: 2, waitingTasks: 0,
    admittedTaskCount: 2, chunks: { buffered: 0 }
  })
  t.ok(notes(made).includes('an operator cancelled 2 task(s)'))
  t.equal((await hear(made.open({ mode: 'count', chunks: 2 }))).end, 'end', 'and serves the next one')
})

t.test('a runner that does not let go in time is started again', async (t) => {
  const made = bench(t)
  await made.ready()
  const pid = made.pid()
  let blocked = false
  const stuck = hear(made.open({ mode: 'block' }), () => { blocked = true })
  await until('it blocks', () => blocked)
  t.same(await made.supervisor.cancelTasks(100), { taskIds: ['task-1'], restarted: true })
  t.equal((await stuck).end, 'cancelled')
  await until('another process', () =>
    'RunnerReady' in made.supervisor.status && ![pid, null].includes(made.supervisor.report().pid))
  t.equal(made.supervisor.report().restarts, 1)
  t.match(notes(made).join('\n'),
    /killed: an operator cancelled its tasks; it still worked on one 0\.1 s later/)
})

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
