import t from 'tap'
import { mergeTasks } from '../routing/remote/gossip.js'
import { TASK_LINGER_MS, TASK_PENDING_MS, TaskTable, TASKS_FINISHED_MAX } from '../routing/tasks.js'
import type { TerminalStatus } from '../service.js'

const shown = (tasks: TaskTable) => mergeTasks(tasks.all(), [], [])

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
  t.same(shown(tasks), {
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
  t.same(shown(tasks), {})
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
  t.ok(shown(tasks)['a'])
  wait(1)
  t.same(shown(tasks), {})
})

t.test('a running task is never forgotten', async (t) => {
  const { tasks, add, wait } = table()
  add('a')
  tasks.start('a')
  wait(TASK_PENDING_MS * 100)
  t.equal(shown(tasks)['a']?.Inference.status, 'Running')
})

t.test('a task that nobody opens times out', async (t) => {
  const { tasks, add, wait } = table()
  add('a')
  wait(TASK_PENDING_MS)
  t.equal(shown(tasks)['a']?.Inference.status, 'TimedOut')
  t.equal(tasks.outstanding('r1'), 0)
  t.notOk(tasks.start('a'))
})

t.test('the table stays bounded, oldest out first', async (t) => {
  const { tasks, add } = table()
  for (let n = 0; n < TASKS_FINISHED_MAX + 10; n += 1) {
    add(`t${n}`)
    tasks.finish(`t${n}`, 'Complete')
  }
  const ids = Object.keys(shown(tasks))
  t.equal(ids.length, TASKS_FINISHED_MAX)
  t.equal(ids[0], 't10')
})

t.test('open tasks by runner, without those that a node knows of itself', async (t) => {
  const { tasks } = table()
  const about = { commandId: 'c', instanceId: 'i', modelId: 'acme/x', capability: 'tts', createdAt: 'T' }
  const add = (taskId: string, runnerId: string, member: string | null): void => {
    tasks.add({ taskId, ...about }, runnerId, { caller: null, member })
  }
  add('own', 'r1', null)
  add('b1', 'r1', 'B')
  add('b2', 'r2', 'B')
  add('c1', 'r1', 'C')
  t.same(tasks.loads('A'), { r1: 3, r2: 1 })
  t.same(tasks.loads('B'), { r1: 2 })
  t.same(tasks.loads('C'), { r1: 2, r2: 1 })
  for (const taskId of ['own', 'c1', 'b2']) tasks.finish(taskId, 'Complete')
  t.same(tasks.loads('A'), { r1: 1 })
  t.same(tasks.loads('B'), {})
})

t.test('what has changed since, in the order of the changes and in portions', async (t) => {
  const changed: string[] = []
  const tasks = new TaskTable(() => 0, ({ taskId, status }, runnerId) => {
    changed.push(`${taskId} ${status} at ${runnerId}`)
  })
  const about = { commandId: 'c', instanceId: 'i', modelId: 'acme/x', capability: 'tts', createdAt: 'T' }
  for (const taskId of ['a', 'b', 'c']) tasks.add({ taskId, ...about }, 'r')
  tasks.start('a')
  tasks.finish('b', 'Failed')
  t.same(changed, ['a Pending at r', 'b Pending at r', 'c Pending at r', 'a Running at r', 'b Failed at r'])
  const first = tasks.changedSince(0, 2)
  t.match(first.tasks, [{ taskId: 'c', status: 'Pending' }, { taskId: 'a', status: 'Running' }])
  t.ok(first.more)
  t.equal(first.tasks.length, 2)
  const rest = tasks.changedSince(first.next, 2)
  t.match(rest, { tasks: [{ taskId: 'b', status: 'Failed' }], more: false })
  t.same(tasks.changedSince(rest.next, 2), { tasks: [], next: rest.next, more: false })
})
