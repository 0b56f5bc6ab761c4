import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import type { ManualClock } from '../../../kernel/testing/index.js'
import type { NodeView } from '../../../kernel/index.js'
import { GATHER_MS, NODE_GONE_MS, CHECK_MS, LostTasks } from '../routing/lost-tasks.js'
import type { OpenTask, TaskFailure } from '../routing/lost-tasks.js'

interface Desk {
  losses: LostTasks
  clock: ManualClock
  /** Ids of the tasks for which the master emitted an event. */
  told: string[]
  sent: TaskFailure[][]
  session: { sessionId: string, masterNodeId: string | null, isMaster: boolean }
  /** Notifies the plugin of a change of session. */
  changed (): void
  nodes: { nodeId: string, installId: string, live: boolean }[]
  /** Whether the instance of the tasks is placed. */
  instance: { placed: boolean }
  refuse: { is: boolean }
}

/** Node `a` in a cluster of `a`, `b` and `c`, whose node ids end with `-1`. */
function desk (master: string | null): Desk {
  const clock = manualClock()
  const told: string[] = []
  const sent: TaskFailure[][] = []
  const refuse = { is: false }
  const instance = { placed: true }
  const listeners = new Set<() => void>()
  const session = { sessionId: 'S', masterNodeId: master, isMaster: master === 'a-1' }
  const nodes = ['a', 'b', 'c'].map((installId) =>
    ({ nodeId: `${installId}-1`, installId, name: installId, live: true }))
  const losses = new LostTasks({
    clock,
    log: { debug () {}, info () {}, warn () {}, error () {}, fatal () {} },
    session: Object.assign(session, { onChange: (fn: () => void) => {
      listeners.add(fn)
      return () => { listeners.delete(fn) }
    } }),
    cluster: {
      nodes: () => nodes as unknown as NodeView[],
      resolve: (ref) => nodes.find(({ installId }) => installId === ref) as unknown as NodeView
    },
    placed: () => instance.placed,
    send: async (failures) => {
      if (refuse.is) throw new Error('no master')
      sent.push(failures)
    },
    emit: ({ taskId }) => { told.push(taskId) }
  })
  const changed = (): void => { for (const fn of listeners) fn() }
  return { losses, clock, told, sent, session, nodes, instance, refuse, changed }
}

const failure = (taskId: string): TaskFailure =>
  ({ taskId, commandId: 'c', errorType: 'instance_lost', errorMessage: 'lost' })
const open = (taskId: string, asker: string | null = null): OpenTask => ({ requester: asker, task: {
  taskId, commandId: 'c', instanceId: 'i', modelId: 'acme/x', capability: 'tts', createdAt: 'T',
  status: 'Running'
} })

t.test('the master tells at once, and each task once, whoever reports it', async (t) => {
  const { losses, told } = desk('a-1')
  losses.report(failure('x'))
  losses.take([failure('x'), failure('y')])
  losses.report(failure('y'))
  t.same(told, ['x', 'y'])
})

t.test('a call without a known task and its task are told once, whichever comes first', async (t) => {
  const { losses, told } = desk('a-1')
  const of = (taskId: string, commandId: string): TaskFailure => ({ ...failure(taskId), commandId })
  losses.take([of('c1', 'c1'), of('t1', 'c1'), of('c1', 'c1')])
  losses.take([of('t2', 'c2'), of('c2', 'c2'), of('t3', 'c2')])
  t.same(told, ['c1', 't2', 't3'], 'a second task of one call is another loss')
})

t.test('another node has the master tell, those of one moment together', async (t) => {
  const { losses, told, sent, clock } = desk('b-1')
  losses.report(failure('x'))
  losses.report(failure('y'))
  await clock.advance(GATHER_MS)
  t.same(sent.map((some) => some.map(({ taskId }) => taskId)), [['x', 'y']])
  t.same(told, [], 'and tells nothing itself')
  await clock.advance(10_000)
  t.equal(sent.length, 1, 'what the master took is not sent again')
})

t.test('what fails while there is no master waits for the next one', async (t) => {
  const { losses, sent, clock, session, changed, refuse } = desk(null)
  losses.report(failure('x'))
  await clock.advance(5_000)
  t.same(sent, [])
  refuse.is = true
  session.masterNodeId = 'b-1'
  changed()
  await clock.advance(5_000)
  refuse.is = false
  await clock.advance(5_000)
  t.same(sent.map((some) => some.map(({ taskId }) => taskId)), [['x']])
})

t.test('a node dies with tasks that nobody waits for', async (t) => {
  const { losses, told, clock, nodes, instance } = desk('a-1')
  nodes[1]!.live = false
  losses.missing('b', [open('its-own'), open('of-c', 'c')])
  await clock.advance(NODE_GONE_MS - CHECK_MS)
  t.same(told, [], 'others may still reach it')
  instance.placed = false
  await clock.advance(CHECK_MS)
  t.same(told, ['its-own'], 'the one of a node that is there is that node\'s to report')
  losses.report(failure('its-own'))
  t.same(told, ['its-own'])
})

t.test('the node that asked dies as well', async (t) => {
  const { losses, told, clock, nodes } = desk('a-1')
  nodes[1]!.live = false
  nodes[2]!.live = false
  losses.missing('b', [open('of-c', 'c')])
  await clock.advance(NODE_GONE_MS + CHECK_MS)
  t.same(told, ['of-c'], 'also where nobody takes the instance away')
})

t.test('a link that breaks for a moment loses no task', async (t) => {
  const { losses, told, clock, nodes } = desk('a-1')
  nodes[1]!.live = false
  losses.missing('b', [open('x')])
  await clock.advance(CHECK_MS)
  nodes[1]!.live = true
  await clock.advance(2 * NODE_GONE_MS)
  t.same(told, [])
})

t.test('what a node had that was started anew is lost at once', async (t) => {
  const { losses, told, clock, nodes } = desk('a-1')
  losses.missing('b', [open('x')])
  nodes[1]!.nodeId = 'b-2'
  await clock.advance(CHECK_MS)
  t.same(told, ['x'])
})

t.test('the master dies: the next one tells, the others do not', async (t) => {
  for (const next of ['a-1', 'c-1']) {
    const { losses, told, sent, clock, nodes, session, instance, changed } = desk('b-1')
    nodes[1]!.live = false
    instance.placed = false
    losses.missing('b', [open('x')])
    await clock.advance(2 * NODE_GONE_MS)
    t.same(told, [], 'the one that is gone is not missed yet')
    Object.assign(session, { masterNodeId: next, isMaster: next === 'a-1' })
    changed()
    t.same([told, sent], [next === 'a-1' ? ['x'] : [], []])
  }
})

t.test('a closed one neither looks nor sends', async (t) => {
  const { losses, told, sent, clock, nodes } = desk('b-1')
  losses.report(failure('x'))
  nodes[2]!.live = false
  losses.missing('c', [open('y')])
  losses.close()
  await clock.advance(2 * NODE_GONE_MS)
  t.same([told, sent], [[], []])
})
