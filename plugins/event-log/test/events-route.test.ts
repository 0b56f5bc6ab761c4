import t, { type Test } from 'tap'
import { entryAfter, START } from '../log/entries.js'
import { EventLogService } from '../service.js'
import { diskTest } from './store-kit.js'
import { noSqlite, SELF, startLog, type LogRig } from './kit.js'

type T = Pick<Test, 'same' | 'ok' | 'equal' | 'match' | 'teardown'>

const idxs = (page: { events: { idx: number }[] }): number[] => page.events.map((e) => e.idx)

/** A log with events 1 to 6, one a minute, of two kinds. */
async function six (t: T): Promise<LogRig> {
  const rig = await startLog(t)
  for (let i = 0; i < 6; i++) {
    rig.happen(i % 2 === 0 ? 'NodeJoined' : 'NodeTimedOut', { nodeId: `n${i}` })
    await rig.clock.advance(60_000)
  }
  return rig
}

diskTest('a page has the shape of the contract', async (t) => {
  const rig = await startLog(t)
  t.same(await rig.page(),
    { sessionId: 's1', mode: 'normal', counted: 0, firstIdx: 1, nextIdx: 1, events: [] })
  rig.happen('NodeJoined', { nodeId: 'x' })
  const page = await rig.page()
  t.match(page, { firstIdx: 1, nextIdx: 2, events: [{ idx: 1, at: '2026-01-01T00:00:00.000Z', sessionId: 's1',
    id: /^[0-9a-f-]{36}$/, event: { NodeJoined: { nodeId: 'x' } } }] })
  t.match(page.events[0]!.origin, /^[a-z2-7]{26}$/, 'the node id of this start')
  const state = (await rig.inject({ url: '/state' })).json() as { lastEventAppliedIdx: number }
  t.equal(state.lastEventAppliedIdx, 1)
})

t.test('since, limit, kinds and node choose', async (t) => {
  const rig = await six(t)
  const check = async (query: string, expected: number[]): Promise<void> => {
    t.same(idxs(await rig.page(query)), expected, query)
  }
  await check('', [1, 2, 3, 4, 5, 6])
  await check('?limit=2', [5, 6])
  await check('?since=2&limit=2', [3, 4])
  await check('?since=6', [])
  await check('?since=2026-01-01T00:03:00Z', [4, 5, 6])
  await check('?since=2026-01-01T00:03:00Z&limit=1', [4])
  await check('?since=2025-12-31', [1, 2, 3, 4, 5, 6])
  await check('?kinds=NodeTimedOut', [2, 4, 6])
  await check('?kinds=NodeTimedOut,NodeJoined&limit=3', [4, 5, 6])
  await check('?kinds=MasterElected', [])
  const own = (await rig.page()).events[0]!.origin
  await check(`?node=${own}`, [1, 2, 3, 4, 5, 6])
  await check('?node=two', [])
})

t.test('what is wrong in a query is named', async (t) => {
  const rig = await six(t)
  const check = async (query: string, status: number, reason: string, words: RegExp): Promise<void> => {
    const answer = await rig.inject({ url: `/events${query}` })
    const { error } = answer.json() as { error: { reason: string, message: string } }
    t.equal(answer.statusCode, status, query)
    t.equal(error.reason, reason)
    t.match(error.message, words)
  }
  await check('?kinds=NodeJoined,Nonsense', 400, 'invalid_request', /"Nonsense"/)
  await check('?kinds=,', 400, 'invalid_request', /kind ""/)
  await check('?since=yesterday', 400, 'invalid_request', /since is "yesterday"/)
  await check('?since=2026-13-45', 400, 'invalid_request', /since/)
  await check('?limit=0', 400, 'invalid_request', /limit is 0: it must be 1 to 1000/)
  await check('?limit=1001', 400, 'invalid_request', /limit is 1001/)
  await check('?limit=many', 400, 'invalid_request', /limit/)
  await check('?until=5', 400, 'invalid_request', /until/)
  await check('?follow=1&since=3&limit=4', 400, 'invalid_request', /limit/)
  await check('?node=nobody', 404, 'node_not_found', /"nobody"/)
})

t.test('only operators may look', async (t) => {
  const rig = await startLog(t, { allow: ['read', 'invoke'] })
  t.equal((await rig.inject({ url: '/events' })).statusCode, 401)
})

t.test('a kind is a word with a capital', async (t) => {
  const rig = await startLog(t)
  t.equal((await rig.inject({ url: '/events?kinds=what-ever' })).statusCode, 400)
})

t.test('events are submitted to the master, and an entry of the master is in the page', async (t) => {
  const rig = await startLog(t)
  rig.session('s2', 'other')
  rig.happen('NodeJoined', { nodeId: 'mine' })
  t.same((await rig.page()).events, [], 'not before the master has given it an index')
  rig.peer('other', true)
  const submit = rig.sent.find(({ message }) => (message as { type: string }).type === 'submit')
  t.match(submit,
    { to: 'other', message: { sid: 's2', events: [{ event: { NodeJoined: { nodeId: 'mine' } } }] } })
  const [event] = (submit!.message as { events: [Parameters<typeof entryAfter>[3]] }).events
  rig.hear('other', { type: 'append', sid: 's2', entries: [entryAfter(START, 1, 's2', event)] })
  t.match(await rig.page(), { sessionId: 's2', nextIdx: 2, events: [{ idx: 1, id: event.id }] })
  t.equal(event.origin, (await rig.page()).events[0]!.origin)
  t.not(event.origin, SELF.installId)
})

t.test('an event that was just indexed is a sign of life of its node', async (t) => {
  const rig = await startLog(t)
  rig.peer('other', true)
  const at = (ms: number): string => new Date(rig.clock.now() + ms).toISOString()
  const submit = (id: string, ms: number): void => {
    const events = [{ id, at: at(ms), origin: 'othernode', event: { NodeJoined: { nodeId: id } } }]
    rig.hear('other', { type: 'submit', sid: 's1', events })
  }
  rig.happen('NodeJoined', { nodeId: 'mine' })
  submit('old', -3_000)
  t.same(rig.signs, [], 'not an own one, nor what happened long ago')
  submit('new', -100)
  submit('another', 0)
  t.same(rig.signs, ['othernode'], 'once is enough for a second')
  await rig.clock.advance(1_000)
  submit('later', 0)
  t.same(rig.signs, ['othernode', 'othernode'])
})

t.test('dropped events are an event: LogGap', async (t) => {
  const rig = await startLog(t)
  rig.happen('NodeJoined', { nodeId: 'x'.repeat(20_000) })
  t.match(rig.events.filter((e) => e.kind === 'LogGap'), [{ payload: { from: 0, to: 0, count: 1 } }])
  t.match(rig.logged.find((l) => l.level === 'warn'), { message: /dropped/, fields: { count: 1 } })
})

t.test('what is no longer kept is named, where nothing is stored', async (t) => {
  const rig = await startLog(t, { parts: noSqlite })
  t.match(rig.conflicts(), [{ code: 'event_log_unavailable', message: /no sqlite3 here/ }])
  t.match(rig.logged.find(({ level }) => level === 'error'), { message: /events cannot be stored/ })
  for (let i = 0; i < 10_010; i++) rig.happen('NodeJoined', { nodeId: `n${i}` })
  const page = await rig.page('?since=3&limit=1')
  t.match(page, { mode: 'memory', firstIdx: 11, nextIdx: 10_011, gaps: [[4, 10]], events: [{ idx: 11 }] })
  t.notOk((await rig.page('?since=10&limit=1')).gaps)
  t.equal((await rig.page('?since=2026-01-01T00:00:00Z&limit=1')).events[0]!.idx, 11)
})

diskTest('what memory no longer holds comes from the store', async (t) => {
  const rig = await startLog(t)
  for (let i = 0; i < 10_010; i++) {
    rig.happen(i % 1000 === 4 ? 'NodeTimedOut' : 'NodeJoined', { nodeId: `n${i}` })
    if (i === 5000) await rig.stored()
  }
  const page = await rig.page('?since=3&limit=9')
  t.match(page, { mode: 'normal', firstIdx: 1, nextIdx: 10_011 })
  t.same(idxs(page), [4, 5, 6, 7, 8, 9, 10, 11, 12])
  t.notOk(page.gaps)
  t.notOk(page.degraded)
  t.same(idxs(await rig.page('?kinds=NodeTimedOut&limit=11')).slice(0, 2), [5, 1005])
  t.same(idxs(await rig.page('?since=2026-01-01T00:00:00Z&limit=2')), [1, 2])
  const { origin } = page.events[0]!
  t.same(idxs(await rig.page(`?node=${origin}&since=0&limit=1`)), [1])
  const view = rig.service(EventLogService)
  t.same(view.newest(2).map(({ idx }) => idx), [10_009, 10_010])
  t.same(view.newest(0), [])
  t.same([view.firstIdx, view.lastIdx, view.waiting, view.status().mode], [1, 10_010, 0, 'normal'])
})
