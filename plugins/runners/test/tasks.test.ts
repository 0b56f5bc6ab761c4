import t from 'tap'
import { TASK_LINGER_MS, TASK_PENDING_MS, TASKS_FINISHED_MAX } from '../limits.js'
import { TaskTable } from '../tasks.js'
import type { TerminalStatus } from '../tasks.js'

function table () {
  let now = 0
  const tasks = new TaskTable(() => now)
  const add = (taskId: string, runnerId = 'r1'): void => {
    tasks.add(
      {
        taskId,
        commandId: `c-${taskId}`,
        instanceId: 'i',
        modelId: 'acme/x',
        capability: 'tts',
        createdAt: 'T'
      },
      runnerId
    )
  }
  return {
    tasks,
    add,
    wait: (ms: number) => { now += ms }
  }
}

t.test('a task goes from pending over running to one terminal status', async (t) => {
  const { tasks, add } = table()
  add('a')
  t.same(tasks.view(), {
    a: {
      Inference: {
        taskId: 'a',
        commandId: 'c-a',
        instanceId: 'i',
        modelId: 'acme/x',
        capability: 'tts',
        status: 'Pending',
        createdAt: 'T'
      }
    }
  })
  t.ok(tasks.start('a'))
  t.notOk(tasks.start('a'), 'it starts once')
  t.equal(tasks.get('a')?.status, 'Running')
  t.ok(tasks.finish('a', 'Complete'))
})

for (const first of ['Complete', 'TimedOut', 'Failed', 'Cancelled'] as TerminalStatus[]) {
  t.test(`nothing follows ${first}`, async (t) => {
    const { tasks, add } = table()
    add('a')
    tasks.start('a')
    t.ok(tasks.finish('a', first))
    for (const second of ['Complete', 'TimedOut', 'Failed', 'Cancelled'] as const) {
      t.notOk(tasks.finish('a', second))
    }
    t.notOk(tasks.start('a'))
    t.equal(tasks.get('a')?.status, first)
  })
}

t.test('unknown tasks change nothing', async (t) => {
  const { tasks } = table()
  t.notOk(tasks.start('nobody'))
  t.notOk(tasks.finish('nobody', 'Complete'))
  t.same(tasks.view(), {})
})

t.test('outstanding work is counted per runner', async (t) => {
  const { tasks, add } = table()
  add('a')
  add('b')
  add('c', 'r2')
  tasks.start('a')
  t.equal(tasks.outstanding('r1'), 2)
  tasks.finish('a', 'Failed')
  t.equal(tasks.outstanding('r1'), 1)
  t.equal(tasks.outstanding('r2'), 1)
  t.equal(tasks.outstanding('r3'), 0)
})

t.test('what is over is forgotten after a while', async (t) => {
  const { tasks, add, wait } = table()
  add('a')
  tasks.finish('a', 'Cancelled')
  wait(TASK_LINGER_MS - 1)
  t.ok(tasks.view()['a'])
  wait(1)
  t.same(tasks.view(), {})
})

t.test('a running task is never forgotten', async (t) => {
  const { tasks, add, wait } = table()
  add('a')
  tasks.start('a')
  wait(TASK_PENDING_MS * 100)
  t.equal(tasks.view()['a']?.Inference.status, 'Running')
})

t.test('a task that nobody opens times out', async (t) => {
  const { tasks, add, wait } = table()
  add('a')
  wait(TASK_PENDING_MS)
  t.equal(tasks.view()['a']?.Inference.status, 'TimedOut')
  t.equal(tasks.outstanding('r1'), 0)
  t.notOk(tasks.start('a'))
})

t.test('the table stays bounded, oldest out first', async (t) => {
  const { tasks, add } = table()
  for (let n = 0; n < TASKS_FINISHED_MAX + 10; n += 1) {
    add(`t${n}`)
    tasks.finish(`t${n}`, 'Complete')
  }
  const ids = Object.keys(tasks.view())
  t.equal(ids.length, TASKS_FINISHED_MAX)
  t.equal(ids[0], 't10')
})
