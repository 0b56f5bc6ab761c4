import t from 'tap'
import { decodeBody } from '../history/body.js'
import { Draft } from '../history/part.js'
import { EventLog } from '../log/log.js'
import { instanceOn, startHistoryRig, stateWith } from './history-kit.js'

const MINUTE = 60_000

t.test('one a minute, none when nothing of note changed, one for the readings now and then', async (t) => {
  const rig = startHistoryRig(t)
  await rig.clock.advance(1000)
  t.same(rig.taken(), ['start@0'])
  await rig.clock.advance(2 * MINUTE)
  t.same(rig.taken(), ['start@0'])
  rig.state = { ...rig.state, nodeMemory: { a: { ramAvailable: 1 } } }
  await rig.clock.advance(MINUTE)
  t.same(rig.taken(), ['start@0'], 'readings alone are none')
  rig.state = { ...rig.state, tracingEnabled: true }
  await rig.clock.advance(MINUTE)
  t.same(rig.taken(), ['start@0', 'minute@0'])
  await rig.clock.advance(11 * MINUTE)
  t.same(rig.taken(), ['start@0', 'minute@0', 'minute@0'])
  t.match(rig.store.snapshots[1], { sid: 's1', at: Date.UTC(2026, 0, 1) + 4 * MINUTE + 500 })
})

t.test('one at each failure, session change and placement, in a burst one for all', async (t) => {
  const rig = startHistoryRig(t)
  await rig.clock.advance(5000)
  const check = async (kind: string, more: Record<string, unknown> = {}): Promise<void> => {
    const before = rig.taken().length
    rig.happen(kind, more)
    await rig.clock.advance(400)
    t.equal(rig.taken().length, before, `${kind}: not before things have settled`)
    await rig.clock.advance(4600)
    t.same(rig.taken().slice(before), [`${kind}@${rig.log.last.idx}`])
  }
  for (const kind of ['NodeJoined', 'NodeTimedOut', 'NodeRemoved', 'MasterElected', 'SessionChanged',
    'InstanceCreated', 'InstanceDeleted', 'InstanceFailureRecorded', 'RunnerFailed', 'DownloadFailed',
    'StateDiverged']) await check(kind)
  await check('RunnerStatusUpdated', { status: { RunnerReady: {} } })
  const before = rig.taken().length
  rig.happen('RunnerStatusUpdated', { status: { RunnerLoading: {} } })
  rig.happen('RunnerStatusUpdated')
  rig.happen('RunnerStatusUpdated', { status: 'RunnerReady' })
  rig.happen('NodeDownloadProgress')
  await rig.clock.advance(5000)
  t.equal(rig.taken().length, before, 'other events are no cause')
  for (let i = 0; i < 20; i++) {
    rig.happen(i % 2 === 0 ? 'RunnerFailed' : 'NodeTimedOut', { nodeId: 'x' })
    await rig.clock.advance(100)
  }
  await rig.clock.advance(5000)
  t.same(rig.taken().slice(before), [`RunnerFailed@${rig.log.last.idx}`])
  rig.session()
  await rig.clock.advance(5000)
  t.equal(rig.taken().at(-1), `session@${rig.log.last.idx}`)
})

t.test('tasks that fail in numbers make few snapshots, and do not delay others', async (t) => {
  const rig = startHistoryRig(t)
  await rig.clock.advance(5000)
  for (let i = 0; i < 600; i++) {
    rig.happen('TaskFailed')
    await rig.clock.advance(100)
  }
  t.ok(rig.taken().length <= 4, rig.taken().join())
  rig.happen('InstanceDeleted')
  await rig.clock.advance(3000)
  t.match(rig.taken().at(-1), /^InstanceDeleted@/)
})

t.test('what goes on without a pause is recorded, and no event is taken for known', async (t) => {
  const rig = startHistoryRig(t)
  await rig.clock.advance(5000)
  for (let i = 0; i < 100; i++) {
    rig.happen('NodeJoined', { nodeId: `n${i}` })
    await rig.clock.advance(200)
  }
  const taken = rig.store.snapshots.slice(1)
  t.ok(taken.length >= 2 && taken.length <= 5, rig.taken().join())
  for (const { idx, at } of taken) {
    const next = rig.log.entries.find((entry) => entry.idx > idx)!
    const age = at - Date.parse(next.at)
    t.ok(age <= 500, `the first event that may be missing was ${age} ms old`)
  }
})

t.test('a state that cannot be read is told, and the next one is recorded', async (t) => {
  const rig = startHistoryRig(t)
  rig.state = null
  await rig.clock.advance(1000)
  t.match(rig.errors, [/a snapshot of the state failed/])
  rig.state = stateWith(['a'])
  await rig.clock.advance(MINUTE)
  t.same(rig.taken(), ['minute@0'])
})

t.test('a slow read holds up nothing and is not doubled', async (t) => {
  const rig = startHistoryRig(t)
  rig.readMs = 30_000
  rig.happen('NodeJoined', { nodeId: 'c' })
  await rig.clock.advance(20_000)
  rig.happen('NodeTimedOut', { nodeId: 'c' })
  await rig.clock.advance(20_000)
  t.same(rig.taken(), ['start@1'], 'an event meanwhile is not taken for known')
  await rig.clock.advance(30_000)
  t.same(rig.taken(), ['start@1', 'NodeTimedOut@2'])
})

t.test('a log that has yet to catch up is waited for', async (t) => {
  const rig = startHistoryRig(t)
  rig.inStep = false
  await rig.clock.advance(20_000)
  t.same(rig.taken(), [])
  for (let i = 0; i < 7; i++) rig.happen('RunnerStatusUpdated', { status: {} })
  rig.inStep = true
  await rig.clock.advance(3000)
  t.same(rig.taken(), ['start@7'])
  rig.inStep = false
  rig.state = stateWith(['b'], { masterNodeId: null })
  rig.session()
  await rig.clock.advance(3000)
  t.same(rig.taken(), ['start@7', 'session@7'], 'not while there is no master')
})

t.test('before the first session there is nothing to record; without a master the log counts', async (t) => {
  const rig = startHistoryRig(t)
  rig.state = stateWith([], { sessionId: '', masterNodeId: null })
  await rig.clock.advance(1000)
  t.same(rig.taken(), [])
  await t.rejects(rig.then(0), { reason: 'not_recorded', message: /^This node has recorded no state yet/ })
  rig.state = stateWith(['a', 'b', 'c'])
  rig.session()
  await rig.clock.advance(5000)
  rig.happen('NodeTimedOut', { nodeId: 'c' })
  rig.state = stateWith(['b'], { masterNodeId: null })
  rig.session()
  await rig.clock.advance(5000)
  const then = await rig.then(1)
  t.match(then, { snapshot: { stale: true }, state: { topology: { nodes: ['b'] }, masterNodeId: null } })
  t.strictSame(then.derived, { idx: 1, session: { sessionId: 's1', term: 1, masterNodeId: 'a' },
    members: ['a', 'b'], instances: {} })
})

t.test('who is there is what the master told, whatever links this node has', async (t) => {
  const rig = startHistoryRig(t)
  rig.isMaster = false
  for (const nodeId of ['c', 'd', 'e']) rig.happen('NodeJoined', { nodeId })
  rig.happen('NodeTimedOut', { nodeId: 'd' })
  rig.state = stateWith(['a', 'b', 'd'])
  await rig.clock.advance(5000)
  t.same((await rig.then(4)).derived.members, ['a', 'b', 'c', 'e'], 'also at first')
  rig.happen('NodeJoined', { nodeId: 'd' })
  rig.state = stateWith(['a'], { instances: { i: instanceOn('i', 'a') } })
  await rig.clock.advance(5000)
  t.match((await rig.then(5)).derived, { members: ['a', 'b', 'c', 'd', 'e'], instances: { i: {} } })
  rig.log.restart({ idx: 50, chain: '' })
  rig.happen('NodeJoined', { nodeId: 'z' })
  await rig.clock.advance(5000)
  t.same((await rig.then(51)).derived.members, ['a', 'z'], 'what it sees is all it has')
})

t.test('who is there is known also when the log does not go back to the newest snapshot', async (t) => {
  const rig = startHistoryRig(t, { log: new EventLog(1000) })
  rig.isMaster = false
  for (const nodeId of ['c', 'd']) rig.happen('NodeJoined', { nodeId })
  rig.state = stateWith(['a', 'b'])
  await rig.clock.advance(10_000)
  for (let i = 0; i < 3000; i++) {
    if (i === 1500) rig.happen('NodeTimedOut', { nodeId: 'd' })
    else rig.happen('NodeDownloadProgress')
    if (i % 100 === 0) await rig.clock.advance(300)
  }
  rig.happen('NodeJoined', { nodeId: 'e' })
  await rig.clock.advance(10_000)
  t.same((await rig.then(rig.log.last.idx)).derived.members, ['a', 'b', 'c', 'e'])
})

t.test('a log that was cut: what comes there now is applied to the snapshots of before', async (t) => {
  const rig = startHistoryRig(t)
  rig.happen('TracingStateChanged')
  await rig.clock.advance(5000)
  rig.happen('NodeJoined', { nodeId: 'lost' })
  rig.happen('NodeJoined', { nodeId: 'lost too' })
  rig.state = stateWith(['a', 'b'])
  await rig.clock.advance(5000)
  t.equal(rig.taken().at(-1), 'NodeJoined@3')
  rig.log.cut(1)
  rig.happen('NodeJoined', { nodeId: 'c' })
  t.match(await rig.then(2), {
    snapshot: { idx: 1, cause: 'NodeJoined' }, derived: { members: ['a', 'b', 'c'] },
    events: [{ idx: 2, event: { NodeJoined: { nodeId: 'c' } } }]
  })
  await rig.clock.advance(5000)
  t.equal(rig.taken().at(-1), 'session@2')
  rig.log.cut(1)
  rig.happen('NodeJoined', { nodeId: 'd' })
  rig.state = stateWith(['b'], { masterNodeId: null })
  await rig.clock.advance(5000)
  t.match((await rig.then(2)).derived.members, ['a', 'b', 'd'], 'also while there is no master')
})

t.test('what was recorded is the next recorded one after the events between', async (t) => {
  const rig = startHistoryRig(t)
  await rig.clock.advance(5000)
  const members = new Set(['a', 'b'])
  for (let i = 0; i < 40; i++) {
    const nodeId = `n${i * 7 % 5}`
    const joins = !members.delete(nodeId)
    if (joins) members.add(nodeId)
    rig.state = stateWith([...members])
    rig.happen(joins ? 'NodeJoined' : 'NodeTimedOut', { nodeId })
    await rig.clock.advance(i * 331 % 4000)
  }
  await rig.clock.advance(5000)
  const { snapshots } = rig.store
  t.ok(snapshots.length > 10)
  for (const [i, next] of snapshots.slice(1).entries()) {
    const { idx, body } = snapshots[i]!
    const between = rig.log.entries.filter((entry) => entry.idx > idx && entry.idx <= next.idx)
    t.strictSame(new Draft(decodeBody(body).part, between).part(), decodeBody(next.body).part,
      `from ${idx} to ${next.idx}`)
  }
})
