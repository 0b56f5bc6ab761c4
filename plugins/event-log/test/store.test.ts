import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { EventLog } from '../log/log.js'
import { restore } from '../store/opening.js'
import { chain, diskTest, everything, openDb, openRig, tempFolder } from './store-kit.js'

diskTest('what was appended is there after a restart, in order, and can be searched', async (t) => {
  const folder = tempFolder(t)
  const first = await openRig(t, folder)
  t.match(first.store.status(),
    { mode: 'normal', counted: 0, gaps: [], firstIdx: null, queued: 0, dropped: 0 })
  t.equal(first.store.reserved, 0)
  const early = chain(700)
  const late = chain(700, { after: early.at(-1)!, kind: 'NodeTimedOut', origin: 'there' })
  first.store.append(early)
  first.store.append(late)
  await first.store.flushed()
  t.equal(first.store.status().queued, 0)
  await first.store.close()
  const { store } = await openRig(t, folder)
  t.same(await everything(store), [...early, ...late])
  t.equal(store.reserved, 1400, 'after a clean stop nothing is set aside')
  t.equal(store.status().firstIdx, 1)
  t.ok(store.status().bytes > 100_000)
  const idxs = async (query: Omit<Parameters<typeof store.read>[0], 'limit'>, limit = 2): Promise<number[]> =>
    (await store.read({ ...query, limit })).map(({ idx }) => idx)
  t.same(await idxs({ after: 10 }), [11, 12])
  t.same(await idxs({ after: 10, until: 11 }), [11])
  t.same(await idxs({ after: 0, newest: true }), [1399, 1400])
  t.same(await idxs({ after: 0, until: 100, newest: true }), [99, 100])
  t.same(await idxs({ after: 0, kinds: ['NodeTimedOut', 'Other'] }), [701, 702])
  t.same(await idxs({ after: 0, kinds: [] }), [])
  t.same(await idxs({ after: 0, origins: ['here'], newest: true }), [699, 700])
  t.same(await idxs({ after: 0, sinceMs: Date.UTC(2026, 0, 1) + 800_000 }), [800, 801])
  t.same(await idxs({ after: 0, sinceMs: Date.UTC(2027, 0, 1) }), [])
  t.equal((await idxs({ after: 0 }, 5000)).length, 1000, 'a page has a thousand rows at most')
})

diskTest('odd texts come back as they were', async (t) => {
  const { store } = await openRig(t, tempFolder(t))
  const entries = ['\u0000', '\ud800', '"\'; DROP TABLE ev; --', '\u{1f600}', '{"a":1}']
    .reduce((list, text) => [...list, ...chain(1, { after: list.at(-1)!, text, origin: text.slice(0, 3) })],
      chain(1))
  store.append(entries)
  await store.flushed()
  t.same(await everything(store), entries)
})

diskTest('a row that cannot be read is left out', async (t) => {
  const folder = tempFolder(t)
  const first = await openRig(t, folder)
  const entries = chain(20)
  first.store.append(entries)
  await first.store.flushed()
  await first.store.close()
  const db = await openDb(join(folder, 'seg-1.db'), false)
  await db.run("UPDATE ev SET body = '{' WHERE idx = 7")
  await db.close()
  const { store } = await openRig(t, folder)
  const left = (await everything(store)).map(({ idx }) => idx)
  t.same(left, entries.map(({ idx }) => idx).filter((idx) => idx !== 7))
  const log = new EventLog()
  restore(log, await store.read({ after: 0, limit: 100, newest: true }))
  t.same([log.base.idx, log.entries.length, log.last.idx], [8, 12, 20], 'the first is where the log begins')
  t.ok(log.holds(entries[10]!))
})

diskTest('a cut takes the tail away, also across segments, and what follows takes its place', async (t) => {
  const folder = tempFolder(t)
  const rig = await openRig(t, folder, { limits: { fileBytes: 40_000 } })
  const entries = chain(900, { text: 'x'.repeat(100) })
  for (let i = 0; i < 900; i += 100) {
    rig.store.append(entries.slice(i, i + 100))
    await rig.store.flushed()
  }
  t.ok(readdirSync(folder).filter((name) => /^seg-\d+\.db$/.test(name)).length >= 3, 'several segments')
  rig.store.cut(900)
  rig.store.cut(120)
  const other = chain(50, { after: entries[119]!, sid: 's2' })
  rig.store.append(other)
  rig.store.cut(160)
  await rig.store.flushed()
  const expected = [...entries.slice(0, 120), ...other.slice(0, 40)]
  t.same(await everything(rig.store), expected)
  await rig.store.close()
  const again = await openRig(t, folder)
  t.same(await everything(again.store), expected)
  t.same(again.store.status().gaps, [])
  again.store.cut(0)
  await again.store.flushed()
  t.same(await everything(again.store), [])
})

diskTest('a log that is taken up further on leaves a gap', async (t) => {
  const folder = tempFolder(t)
  const rig = await openRig(t, folder)
  const before = chain(10)
  const after = chain(10, { after: { idx: 99, chain: 'whatever' } })
  rig.store.append(before)
  rig.store.append(after)
  await rig.store.flushed()
  t.same(rig.store.status().gaps, [[11, 99]])
  t.same(rig.gaps, [], 'nobody counted what was there')
  await rig.store.close()
  t.same((await openRig(t, folder)).store.status().gaps, [[11, 99]])
})

diskTest('the newest snapshot before an index or a time', async (t) => {
  const folder = tempFolder(t)
  const { store } = await openRig(t, folder)
  t.equal(await store.snapshotBefore({ idx: 100 }), null)
  const snap = (idx: number, at: number): Parameters<typeof store.record>[0] =>
    ({ idx, at, sid: 's1', cause: 'minute', body: `{"idx":${idx},"at":${at}}` })
  store.append(chain(30))
  for (const [idx, at] of [[5, 5000], [10, 10_000], [10, 11_000], [20, 9000]]) store.record(snap(idx!, at!))
  await store.flushed()
  t.same(await store.snapshotBefore({ idx: 4 }), null)
  t.same(await store.snapshotBefore({ idx: 9 }), snap(5, 5000))
  t.same(await store.snapshotBefore({ idx: 15 }), snap(10, 11_000), 'the later of two')
  t.same(await store.snapshotBefore({ idx: 99 }), snap(20, 9000))
  t.same(await store.snapshotBefore({ ms: 9999 }), snap(20, 9000), 'the clock had been set back')
  t.same(await store.snapshotBefore({ ms: 10_500 }), snap(10, 10_000))
  store.cut(12)
  await store.flushed()
  t.same(await store.snapshotBefore({ idx: 99 }), snap(10, 11_000))
})
