import t from 'tap'
import { bench, hear, until, type Bench, type Heard } from './process-kit.js'

/** Returns a function that opens a task for a caller and records its end. */
function asker ({ supervisor }: Bench, served: string[]) {
  let count = 0
  return async (who: string, signal = new AbortController().signal): Promise<Heard> => {
    const task = { kind: 'test', payload: { mode: 'count', chunks: 1, delayMs: 30 } }
    const heard = await hear(supervisor.open(`${who}-${++count}`, task, signal, { callerId: who }))
    served.push(`${who} ${heard.end}`)
    return heard
  }
}

/** Occupies the only slot of a runner as caller `who` until released. */
async function occupy ({ supervisor }: Bench, who: string): Promise<{ release: () => Promise<unknown> }> {
  const abort = new AbortController()
  const task = { kind: 'test', payload: { mode: 'untilCancelled' } }
  const running = hear(supervisor.open(`${who}-0`, task, abort.signal, { callerId: who }))
  await until('it runs', () => supervisor.report().inProgressTasks.length === 1)
  return { release: async () => { abort.abort(); return await running } }
}

t.test('callers that wait for a runner take turns', async (t) => {
  const made = bench(t, {}, { maxConcurrent: 1, maxQueued: 8 })
  await made.ready()
  const served: string[] = []
  const ask = asker(made, served)
  const { release } = await occupy(made, 'flood')
  const waiting = ['flood', 'flood', 'flood', 'ann', 'bob'].map((who) => ask(who))
  await release()
  await Promise.all(waiting)
  const at = (who: string): number => served.indexOf(`${who} end`)
  t.ok(at('ann') <= 2 && at('bob') <= 3, served.join(', '))
  t.equal(made.supervisor.report().completedTaskCount, 5, 'what was cancelled does not count')
})

t.test('a flood gives up its newest place; the refusal says when to come again', async (t) => {
  const made = bench(t, {}, { maxConcurrent: 1, maxQueued: 2 })
  await made.ready()
  const served: string[] = []
  const ask = asker(made, served)
  const { release } = await occupy(made, 'flood')
  const flood = [ask('flood'), ask('flood')]
  const ann = ask('ann')
  const refused = await flood[1]
  await release()
  t.equal((await flood[0])!.end, 'end')
  t.equal(refused!.end, 'overloaded')
  t.match(refused!.error, { name: 'RunnerError', details: { retryAfterSeconds: 1, running: 1, waiting: 1 } })
  t.equal((await ann).end, 'end')
})

t.test('a waiting task that is cancelled leaves the queue', async (t) => {
  const made = bench(t, {}, { maxConcurrent: 1, maxQueued: 1 })
  await made.ready()
  const served: string[] = []
  const ask = asker(made, served)
  const abort = new AbortController()
  const running = hear(made.open({ mode: 'untilCancelled' }, abort.signal))
  await until('it runs', () => made.supervisor.report().inProgressTasks.length === 1)
  const waits = new AbortController()
  const waiting = ask('ann', waits.signal)
  t.equal((await ask('ann')).end, 'overloaded')
  waits.abort()
  t.equal((await waiting).end, 'cancelled')
  const next = ask('bob')
  abort.abort()
  t.equal((await running).end, 'cancelled')
  t.equal((await next).end, 'end', 'the place is free again')
})

t.test('a runner that dies refuses all that wait, and its places are free for the next', async (t) => {
  const made = bench(t, {}, { maxConcurrent: 1, maxQueued: 4 })
  await made.ready()
  const served: string[] = []
  const ask = asker(made, served)
  const running = hear(made.open({ mode: 'untilCancelled' }))
  await until('it runs', () => made.supervisor.report().inProgressTasks.length === 1)
  const waiting = [ask('ann'), ask('bob')]
  process.kill(made.pid(), 'SIGKILL')
  t.equal((await running).end, 'instance_lost')
  t.match(await Promise.all(waiting), ['ann', 'bob'].map(() =>
    ({ end: 'instance_lost', error: { details: { begun: false } } })), 'another runner may take them')
  await made.ready()
  t.equal((await ask('ann')).end, 'end')
})

t.test('a request for text that waits is told its place; tokens are counted meanwhile', async (t) => {
  const made = bench(t, {}, { maxConcurrent: 2, maxQueued: 2 })
  const { supervisor } = made
  await made.ready()
  const abort = new AbortController()
  const { signal } = abort
  const chat = (id: string, payload = {}, more: Parameters<typeof supervisor.open>[3] = {}) =>
    supervisor.open(id, { kind: 'chat', payload: { mode: 'untilCancelled', ...payload } }, signal, more)
  const gone = new AbortController()
  const both = hear(supervisor.open('both',
    { kind: 'chat', payload: { mode: 'untilCancelled', n: 2 } }, gone.signal))
  await until('it runs', () => supervisor.report().inProgressTasks.length === 1)
  const admitted: string[] = []
  const waiting = ['first', 'second'].map((id) =>
    chat(id, {}, { admitted: () => { admitted.push(id) } })[Symbol.asyncIterator]())
  const notes = await Promise.all(waiting.map(async (each) => (await each.next()).value))
  t.match(notes, [1, 2].map((place) => ({ payload: { choices: [], queue: { place, slots: 2 } } })))
  t.match(supervisor.report(), { slots: 2, waitingTasks: 2 })
  t.equal((await hear(chat('third'))).end, 'overloaded')
  t.same(admitted, [])
  const counting = { kind: 'tokenize', payload: { mode: 'count', chunks: 1 } }
  const tokens = supervisor.open('tokens', counting, signal)
  t.equal((await hear(tokens)).end, 'end')
  // The reader closes the stream without aborting the signal.
  await waiting[0]!.return(undefined)
  t.equal(supervisor.report().waitingTasks, 1)
  t.match((await waiting[1]!.next()).value, { payload: { queue: { place: 1 } } }, 'it moves up')
  const moved = waiting[1]!.next()
  gone.abort()
  t.equal((await both).end, 'cancelled')
  await until('it is admitted', () => admitted.length === 1)
  abort.abort()
  await moved.catch(() => {})
  await until('all are gone', () => supervisor.report().inProgressTasks.length === 0)
  t.same([admitted, supervisor.report().waitingTasks], [['second'], 0])
})
