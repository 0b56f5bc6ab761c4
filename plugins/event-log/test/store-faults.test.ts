import {
  copyFileSync, existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { DbError, type Db, type OpenDb } from '../store/sqlite-driver.js'
import { chain, diskTest, everything, openDb, openRig, tempFolder, until } from './store-kit.js'
import type { Entry } from '../log/entries.js'

const MIB = 1024 * 1024
const segments = (folder: string): string[] =>
  readdirSync(folder).filter((name) => /^seg-\d+\.db$/.test(name))
const idxs = (entries: readonly Entry[]): number[] => entries.map(({ idx }) => idx)

async function pass (clock: ManualClock, seconds: number): Promise<void> {
  for (let i = 0; i < seconds; i++) {
    await clock.advance(1000)
    await new Promise((resolve) => { setTimeout(resolve, 5) })
  }
}

/** Opens databases in which the test can delay or fail chosen statements. */
function disturbed (affect: (sql: string) => Promise<void>): OpenDb {
  return async (path, make) => {
    const db = await openDb(path, make)
    return {
      ...db,
      run: async (sql, values) => { await affect(sql); await db.run(sql, values) },
      all: async <T>(sql: string, values?: Parameters<Db['all']>[1]) => {
        await affect(sql)
        return await db.all<T>(sql, values)
      }
    }
  }
}

diskTest('T-L09: the floor is seen at the next 1,024th append, exactly', async (t) => {
  const clock = manualClock()
  let free = 2048 * MIB + MIB
  const modes: string[] = []
  const rig = await openRig(t, tempFolder(t), {
    clock, freeBytes: async () => free, onMode: ({ mode }) => { modes.push(mode) },
    limits: { floorBytes: 2048 * MIB, headroomBytes: 512 * MIB, holdMs: 30_000, checkMs: 1000 }
  })
  const entries = chain(3000)
  rig.store.append(entries.slice(0, 500))
  await rig.store.flushed()
  free = 2048 * MIB - 1
  rig.store.append(entries.slice(500, 2000))
  await rig.store.flushed()
  t.match(rig.store.status(), { mode: 'counting-only', counted: 976, gaps: [[1025, 2000]], queued: 0 })
  t.equal((await everything(rig.store)).length, 1024)
  rig.store.append(entries.slice(2000, 2010))
  t.match(rig.store.status(), { counted: 986, gaps: [[1025, 2010]] })
  t.match(rig.logged.filter(({ level }) => level === 'fatal'), [{ message: /^CRITICAL/, fields: {
    why: /2147483647 bytes are free on the volume, less than 2147483648/ } }])
  // There is enough space, but it runs short for a moment before the required time is over.
  free = 2560 * MIB
  await pass(clock, 25)
  free = 2560 * MIB - 1
  await pass(clock, 3)
  free = 2560 * MIB
  await pass(clock, 25)
  t.equal(rig.store.status().mode, 'counting-only')
  rig.store.append(entries.slice(2010, 2015))
  for (let i = 0; i < 60 && rig.store.status().mode !== 'normal'; i++) await pass(clock, 1)
  t.same(rig.gaps, [{ from: 1025, to: 2015, count: 991 }], 'exactly those')
  t.same([...new Set(modes)], ['counting-only', 'normal'])
  t.equal(segments(rig.folder).length, 2, 'a new segment')
  rig.store.append(entries.slice(2015, 2020))
  await rig.store.flushed()
  await rig.store.close()
  const { store } = await openRig(t, rig.folder)
  t.same(idxs(await everything(store)), [...idxs(entries.slice(0, 1024)), 2016, 2017, 2018, 2019, 2020])
  t.same(store.status().gaps, [[1025, 2015]])
})

diskTest('events that come while writing begins again are in the record too', async (t) => {
  let free = 0
  let onCreate = (): void => {}
  const slow = disturbed(async (sql) => { if (sql.startsWith('CREATE TABLE')) onCreate() })
  const rig = await openRig(t, tempFolder(t),
    { openDb: slow, freeBytes: async () => free, limits: { floorBytes: 10 } })
  const entries = chain(20)
  rig.store.append(entries.slice(0, 10))
  let more = 10
  onCreate = () => { if (more < 13) rig.store.append(entries.slice(more, ++more)) }
  free = 100
  await until(() => rig.store.status().mode === 'normal')
  t.same(rig.gaps, [{ from: 1, to: 13, count: 13 }])
  rig.store.append(entries.slice(13))
  await rig.store.flushed()
  t.same(idxs(await everything(rig.store)), [14, 15, 16, 17, 18, 19, 20])
})

diskTest('a write that fails: nothing waits for it, and a cut meanwhile is made up for', async (t) => {
  let broken = false
  const openBroken = disturbed(async (sql) => {
    if (broken && /^(INSERT|CREATE)/.test(sql)) throw new DbError('disk I/O error', 'SQLITE_IOERR')
  })
  const clock = manualClock()
  const rig = await openRig(t, tempFolder(t),
    { clock, openDb: openBroken, limits: { holdMs: 1000, checkMs: 500 } })
  const entries = chain(30)
  rig.store.append(entries.slice(0, 10))
  await rig.store.flushed()
  broken = true
  rig.store.append(entries.slice(10, 20))
  await rig.store.flushed()
  t.match(rig.store.status(), { mode: 'counting-only', counted: 10, gaps: [[11, 20]] })
  rig.store.cut(6)
  t.same(idxs(await everything(rig.store)), [1, 2, 3, 4, 5, 6], 'what was cut is not shown')
  const other = chain(10, { after: entries[5]!, sid: 's2' })
  rig.store.append(other.slice(0, 5))
  await clock.advance(1500)
  t.equal(rig.store.status().mode, 'counting-only', 'the disk does not take it yet')
  broken = false
  for (let i = 0; i < 60 && rig.store.status().mode !== 'normal'; i++) await pass(clock, 1)
  t.same(rig.gaps, [{ from: 7, to: 11, count: 5 }])
  rig.store.append(other.slice(5))
  await rig.store.flushed()
  t.same(await everything(rig.store), [...entries.slice(0, 6), ...other.slice(5)])
})

diskTest('a disk that does not answer slows nobody; what does not fit is dropped and said', async (t) => {
  // Keep the process alive, as a real disk operation would.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => { clearInterval(alive) })
  let release = (): void => {}
  let stalled: Promise<void> | null = null
  const rig = await openRig(t, tempFolder(t), {
    openDb: disturbed(async () => { if (stalled !== null) await stalled }),
    limits: { queueEntries: 100, readMs: 50, patienceMs: 100 }
  })
  const entries = chain(300)
  rig.store.append(entries.slice(0, 50))
  await rig.store.flushed()
  stalled = new Promise((resolve) => { release = resolve })
  for (const entry of entries.slice(50, 250)) rig.store.append([entry])
  t.match(rig.store.status(), { mode: 'normal', queued: 100, dropped: 100, gaps: [[151, 250]] })
  await t.rejects(rig.store.read({ after: 148, limit: 10 }),
    { name: 'SlowDiskError', message: /not written within 50 ms/ }, 'what waits is not there yet')
  await t.rejects(rig.store.read({ after: 0, until: 50, limit: 1000 }),
    { name: 'SlowDiskError', message: /not read within 50 ms/ })
  await t.rejects(rig.store.read({ after: 0, until: 50, limit: 1 }), { message: /is still in progress/ })
  release()
  stalled = null
  await rig.store.flushed()
  await until(() => rig.gaps.length > 0)
  t.same(rig.gaps, [{ from: 151, to: 250, count: 100 }], 'as soon as there is room again')
  rig.store.append(entries.slice(250))
  await rig.store.flushed()
  t.same(idxs(await everything(rig.store)), [...idxs(entries.slice(0, 150)), ...idxs(entries.slice(250))])
  stalled = new Promise((resolve) => { release = resolve })
  rig.store.append(chain(1, { after: entries.at(-1)! }))
  await rig.store.close()
  t.pass('a stop does not wait for ever')
  release()
})

diskTest('T-L07: a damaged segment is set aside, what is lost is told, and all goes on', async (t) => {
  const folder = tempFolder(t)
  const first = await openRig(t, folder, { limits: { fileBytes: 150_000 } })
  const entries = chain(1000, { text: 'x'.repeat(200) })
  for (let i = 0; i < 1000; i += 50) {
    first.store.append(entries.slice(i, i + 50))
    await first.store.flushed()
  }
  // Simulate a crash: copy the files while the newest segment is open, then damage the copy.
  const names = segments(folder).sort((a, b) => Number(a.slice(4, -3)) - Number(b.slice(4, -3)))
  t.ok(names.length > 2)
  const copy = tempFolder(t)
  for (const name of readdirSync(folder)) copyFileSync(join(folder, name), join(copy, name))
  await first.store.close()
  const newest = names.at(-1)!
  const from = Number(newest.slice(4, -3))
  const size = statSync(join(copy, newest)).size
  const bytes = readFileSync(join(copy, newest))
  bytes.fill(0xa5, size > 8192 ? 4096 : 0, size > 8192 ? 8192 : 4096)
  writeFileSync(join(copy, newest), bytes)
  if (existsSync(join(copy, `${newest}-wal`))) truncateSync(join(copy, `${newest}-wal`), 100)
  const rig = await openRig(t, copy)
  t.match(rig.damaged, [{ from, error: /damaged|malformed|not a database/ }])
  t.match(rig.damaged[0]!.file, /seg-\d+\.db\.corrupt-\d+$/)
  t.ok(existsSync(rig.damaged[0]!.file), 'the evidence is kept')
  t.same(await everything(rig.store), entries.slice(0, from - 1))
  t.ok(rig.store.reserved >= 1000, 'no index is given twice')
  const next = { ...chain(1, { after: { idx: rig.store.reserved, chain: '' } })[0]!, prev: from - 1 }
  rig.store.append([next])
  await rig.store.flushed()
  t.same((await everything(rig.store)).at(-1), next)
  t.same(rig.store.status().gaps, [[from, rig.store.reserved]])
})

diskTest('damage that shows while writing', async (t) => {
  let damaged = false
  const rig = await openRig(t, tempFolder(t), {
    openDb: disturbed(async (sql) => {
      if (!damaged || !sql.startsWith('INSERT')) return
      damaged = false
      throw new DbError('database disk image is malformed', 'SQLITE_CORRUPT')
    })
  })
  const entries = chain(20)
  rig.store.append(entries.slice(0, 10))
  await rig.store.flushed()
  damaged = true
  rig.store.append(entries.slice(10))
  await rig.store.flushed()
  t.match(rig.damaged, [{ from: 1, error: /malformed/ }])
  t.same(await everything(rig.store), entries.slice(10))
  t.match(rig.store.status(), { mode: 'normal', gaps: [[1, 10]] })
})

diskTest('files that are no segments, or were never finished', async (t) => {
  const folder = tempFolder(t)
  for (const name of ['seg-5.db', 'notes.txt']) writeFileSync(join(folder, name), '')
  writeFileSync(join(folder, 'seg-9.db'), 'this is no database at all'.repeat(1000))
  writeFileSync(join(folder, 'position'), '{"reserved":"many"')
  const rig = await openRig(t, folder)
  t.equal(rig.store.reserved, 0)
  t.match(rig.damaged, [{ from: 9 }])
  t.same(readdirSync(folder).filter((name) => !name.includes('corrupt')).sort(), ['notes.txt', 'position'])
  rig.store.append(chain(3))
  await rig.store.flushed()
  t.equal((await everything(rig.store)).length, 3)
})

diskTest('a clock that is set forward and back by an hour changes no order', async (t) => {
  const rig = await openRig(t, tempFolder(t))
  const entries = chain(30).map((entry, i) => ({ ...entry,
    at: new Date(Date.UTC(2026, 0, 1, [10, 11, 9][Math.floor(i / 10)], i)).toISOString() }))
  rig.store.append(entries)
  await rig.store.flushed()
  t.same(await everything(rig.store), entries)
  const since = await rig.store.read({ after: 0, limit: 1000, sinceMs: Date.UTC(2026, 0, 1, 10, 5) })
  t.same(idxs(since), [6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20])
})
