import { randomBytes } from 'node:crypto'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { EventLog } from '../log/log.js'
import { restore } from '../store/opening.js'
import { instanceOn, startHistoryRig, stateWith } from './history-kit.js'
import { diskTest, openRig, tempFolder } from './store-kit.js'

const MINUTE = 60_000

t.test('by index and by time', async (t) => {
  const rig = startHistoryRig(t)
  const t0 = rig.clock.now()
  await rig.clock.advance(5000)
  rig.state = stateWith(['a', 'b'], { instances: { i1: instanceOn('i1', 'a') } })
  rig.happen('InstanceCreated', { instanceId: 'i1', modelId: 'acme/x', nodeIds: ['a'] })
  await rig.clock.advance(5000)
  rig.happen('StagingPurged', { nodeId: 'a' })
  await rig.clock.advance(1000)
  rig.happen('NodeJoined', { nodeId: 'c' })
  const after = { session: { sessionId: 's1', term: 1, masterNodeId: 'a' }, members: ['a', 'b'],
    instances: { i1: { modelId: 'acme/x', nodeIds: ['a'] } } }
  const at = (ms: number): string => new Date(t0 + ms).toISOString()
  t.match(await rig.then(0), {
    at: 0, state: { instances: {} }, events: [], more: false, gaps: [],
    snapshot: { idx: 0, cause: 'start', at: at(500), sessionId: 's1', stale: false, omitted: [] }
  })
  const one = await rig.then(1)
  t.match(one, { at: 1, snapshot: { idx: 1, cause: 'InstanceCreated', at: at(5500) }, events: [] })
  t.strictSame(one.derived, { idx: 1, ...after })
  t.ok((one.state['instances'] as object & { i1: unknown }).i1, 'the whole instance is in the recorded state')
  t.same(one.state['node_identities'], one.state['nodeIdentities'])
  t.match(await rig.then(2), { derived: { idx: 2, ...after }, events: [{ idx: 2 }] })
  const three = await rig.then(3)
  t.strictSame(three.derived, { idx: 3, ...after, members: ['a', 'b', 'c'] })
  t.same(three.events.map(({ idx }) => idx), [2, 3])
  t.same((three.state['topology'] as { nodes: string[] }).nodes, ['a', 'b'], 'what was recorded stays')
  t.match(await rig.then(at(5200)),
    { at: at(5200), snapshot: { cause: 'start' }, derived: { idx: 1, ...after } },
    'between an event and its snapshot')
  t.match(await rig.then(at(10_500)), { snapshot: { idx: 1 }, derived: { idx: 2, ...after } })
  t.strictSame((await rig.then(at(11_000))).derived, three.derived)
})

t.test('what cannot be answered says why', async (t) => {
  const rig = startHistoryRig(t)
  await rig.clock.advance(MINUTE)
  rig.happen('NodeJoined', { nodeId: 'c' })
  const check = async (at: string, reason: string, words: RegExp, details: object): Promise<void> => {
    await t.rejects(rig.then(at), { reason, message: words, details }, at)
  }
  const oldest = { idx: 0, at: '2026-01-01T00:00:00.500Z' }
  await check('2025-12-31T23:00:00Z', 'not_recorded',
    /the oldest one is from 2026-01-01T00:00:00.500Z, index 0/, { oldest })
  await check('2', 'not_recorded', /Index 2 does not exist yet: the newest is 1/, { newest: 1 })
  const named = { issues: [{ path: 'at' }], param: 'at' }
  await check('2026-01-01T00:01:00.001Z', 'invalid_request',
    /1 s in the future: this node's clock says 2026-01-01T00:01/, named)
  const wrong = ['yesterday', '-1', '1.5', '2026-13-40', '2026-01-01T99:00Z', '1e3', '9'.repeat(16), ' 1']
  for (const bad of wrong) {
    await check(bad, 'invalid_request', /at is ".*": it must be an index/, named)
  }
})

t.test('many events: a page of them, and the derived part goes on to the end', async (t) => {
  const rig = startHistoryRig(t)
  await rig.clock.advance(1000)
  for (let i = 0; i < 2500; i++) rig.happen('NodeDownloadProgress')
  rig.happen('NodeJoined', { nodeId: 'c' })
  const then = await rig.then(2501)
  t.match(then, { more: true, derived: { idx: 2501, members: ['a', 'b', 'c'] } })
  t.same([then.events.length, then.events.at(-1)!.idx], [200, 200])
  t.match(await rig.then(200), { more: false, derived: { members: ['a', 'b'] } })
  t.equal((await rig.then(200)).events.length, 200)
})

t.test('what left the memory comes from the store, the rest from memory', async (t) => {
  const rig = startHistoryRig(t, { log: new EventLog(10) })
  await rig.clock.advance(1000)
  for (let i = 1; i <= 50; i++) rig.happen('NodeJoined', { nodeId: `n${i}` })
  t.equal(rig.log.base.idx, 40)
  // The entries after index 45 are only in memory, because they have not been written yet.
  rig.store.cut(45)
  rig.store.gaps = [[20, 25], [60, 70]]
  const then = await rig.then(50)
  t.same(then.events.map(({ idx }) => idx), Array.from({ length: 50 }, (_, i) => i + 1))
  t.equal(then.derived.members.length, 52)
  t.same(then.gaps, [[20, 25]])
  t.same((await rig.then(10)).gaps, [])
  rig.store.gaps = [[45, 48]]
  t.same((await rig.then(50)).gaps, [], 'what is in memory is not missing')
  rig.store.drop(30)
  t.same((await rig.then(50)).gaps, [[1, 30]])
  const asked = rig.store.asked
  rig.happen('InstanceDeleted')
  await rig.clock.advance(5000)
  t.match(await rig.then(51), { events: [], snapshot: { idx: 51 } })
  t.equal(rig.store.asked, asked, 'the newest are not read from the disk')
})

t.test('without a store the newest are in memory, within bounds', async (t) => {
  const rig = startHistoryRig(t, { stored: false, log: new EventLog(10) })
  await rig.clock.advance(1000)
  for (let i = 1; i <= 50; i++) rig.happen('TaskFailed', { n: i })
  t.match(await rig.then(50), { gaps: [[1, 40]], events: { length: 10 } })
  rig.state = stateWith(['a'], { nodeSystem: { x: randomBytes(600_000).toString('base64') } })
  for (let i = 0; i < 30; i++) {
    rig.happen('InstanceDeleted')
    await rig.clock.advance(3000)
  }
  await t.rejects(rig.then(1),
    { reason: 'not_recorded', message: /oldest one is from .*, index \d\d\.$/ })
  t.match(await rig.then(79), { snapshot: { cause: 'InstanceDeleted' } })
})

t.test('a disk that gives nothing is told, and the newest are there all the same', async (t) => {
  const rig = startHistoryRig(t)
  await rig.clock.advance(1000)
  rig.store.snapshotBefore = async () => { throw new Error('it stalled') }
  await t.rejects(rig.then('2025-12-01'),
    { reason: 'not_ready', message: /of 2025-12-01 cannot be read: it stalled/ })
  t.match(await rig.then(0), { snapshot: { cause: 'start' } })
})

t.test('a log that begins anew further on', async (t) => {
  const rig = startHistoryRig(t)
  rig.happen('NodeJoined', { nodeId: 'c' })
  await rig.clock.advance(5000)
  rig.log.restart({ idx: 100, chain: 'x' })
  rig.store.gaps = [[2, 100]]
  rig.happen('NodeJoined', { nodeId: 'd' })
  t.match(await rig.then(101), { snapshot: { idx: 1 }, derived: { idx: 101 }, gaps: [[2, 100]] })
  await rig.clock.advance(5000)
  t.match(await rig.then(101), { snapshot: { idx: 101 }, gaps: [] })
})

t.test('snapshots of an earlier start are found in the store, the oldest too', async (t) => {
  const rig = startHistoryRig(t)
  const body = (members: string[]): string =>
    JSON.stringify({ part: { session: {}, members, instances: {} }, stale: false, omitted: [], state: {} })
  const then = Date.UTC(2025, 11, 1)
  rig.store.snapshots.push({ idx: 0, at: then, sid: 's0', cause: 'minute', body: body(['x']) })
  rig.store.snapshots.push({ idx: 0, at: then + 777_777, sid: 's0', cause: 'minute', body: body(['y']) })
  await rig.clock.advance(1000)
  t.match(await rig.then('2025-12-15'), { snapshot: { sessionId: 's0' }, derived: { members: ['y'] } })
  t.match(await rig.then('2025-12-01'), { derived: { members: ['x'] } })
  await t.rejects(rig.then('2025-11-30'),
    { message: /from 2025-12-01T00:00:00.000Z, index 0/, reason: 'not_recorded' })
})

diskTest('on the disk: what was recorded and what happened is there after a restart', async (t) => {
  const folder = tempFolder(t)
  const clock = manualClock()
  const { store: first } = await openRig(t, folder)
  const before = startHistoryRig(t, { disk: first, clock })
  await clock.advance(5000)
  before.happen('NodeJoined', { nodeId: 'c' })
  before.state = stateWith(['a', 'b', 'c'])
  await clock.advance(5000)
  const t1 = clock.now()
  for (let i = 0; i < 30; i++) before.happen('NodeDownloadProgress')
  before.happen('NodeTimedOut', { nodeId: 'b' })
  await first.flushed()
  await first.close()
  await clock.advance(3_600_000)
  const { store: disk } = await openRig(t, folder)
  const log = new EventLog(5)
  restore(log, await disk.read({ after: 0, limit: 5, newest: true }))
  const after = startHistoryRig(t, { disk, log, clock })
  t.match(await after.then(0), { snapshot: { idx: 0, cause: 'start' }, derived: { members: ['a', 'b'] } })
  t.match(await after.then(1), { snapshot: { idx: 1, cause: 'NodeJoined' }, events: [] })
  t.match(await after.then(new Date(t1).toISOString()), { derived: { idx: 32, members: ['a', 'c'] }, gaps: [],
    events: { length: 31 } })
  t.match(await after.then(31), { derived: { members: ['a', 'b', 'c'] }, events: { length: 30 } })
  await t.rejects(after.then('2025-12-31'), { reason: 'not_recorded', message: /00:00:00.500Z, index 0\./ })
})
