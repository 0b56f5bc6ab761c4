import t from 'tap'
import { bench, hear, until } from './process-kit.js'
import type { Bench, Heard } from './process-kit.js'

/** Opens a task for somebody and notes its end. */
function asker ({ supervisor }: Bench, served: string[]) {
  let count = 0
  return async (who: string, signal = new AbortController().signal): Promise<Heard> => {
    const task = { kind: 'test', payload: { mode: 'count', chunks: 1, delayMs: 30 } }
    const heard = await hear(supervisor.open(`${who}-${++count}`, task, signal, { callerId: who }))
    served.push(`${who} ${heard.end}`)
    return heard
  }
}

/** Keeps the only place of a runner taken until told, in the name of `who`. */
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
  t.same((await Promise.all(waiting)).map(({ end }) => end), ['instance_lost', 'instance_lost'])
  await made.ready()
  t.equal((await ask('ann')).end, 'end')
})
