import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../kernel/index.js'
import { STORE_LIMITS } from '../store/types.js'
import { DbError } from '../store/sqlite-driver.js'
import { defaultParts, type StoreParts } from '../store/opening.js'
import { startLog, type LogRig } from './kit.js'
import { diskTest, openDb, until } from './store-kit.js'

const idxs = (page: { events: { idx: number }[] }): number[] => page.events.map((e) => e.idx)

async function pass (rig: LogRig, fits: () => boolean): Promise<void> {
  await until(async () => {
    await rig.clock.advance(1000)
    return fits()
  })
}

t.test('the floor of free space: a variable may set another one', async (t) => {
  for (const [text, floor] of [['1234', 1234], ['0', 0], [undefined, 2 ** 31], ['', 2 ** 31], ['-5', 2 ** 31],
    ['10G', 2 ** 31]] as const) {
    t.equal(defaultParts(text).limits.floorBytes, floor, String(text))
  }
  t.ok((await defaultParts(undefined).freeBytes('/'))! >= 0)
  t.equal(await defaultParts(undefined).freeBytes('/no/such/folder'), null)
})

diskTest('a disk without room: events are counted and still shown; then all goes on', async (t) => {
  let free = 100
  const parts: Partial<StoreParts> = {
    freeBytes: async () => free, limits: { ...STORE_LIMITS, floorBytes: 1000, headroomBytes: 500 }
  }
  const rig = await startLog(t, { parts })
  t.match(rig.conflicts(), [{ code: 'event_log_degraded', severity: 'warn' }])
  t.match(rig.logged.find(({ level }) => level === 'fatal'),
    { message: /^CRITICAL/, fields: { why: /100 bytes/ } })
  for (let i = 0; i < 5; i++) rig.happen('NodeJoined')
  t.match(await rig.page('?since=0'), { mode: 'counting-only', counted: 5, degraded: true, gaps: [[1, 5]] })
  t.same(idxs(await rig.page('?since=0')), [1, 2, 3, 4, 5], 'memory has them')
  await pass(rig, () => JSON.stringify(rig.conflicts()).includes('5 events were counted'))
  free = 1500
  await pass(rig, () => rig.events.some(({ kind }) => kind === 'LogGap'))
  t.same(rig.events.filter(({ kind }) => kind === 'LogGap').map(({ payload }) => payload),
    [{ from: 1, to: 5, count: 5 }])
  t.same(rig.conflicts(), [])
  rig.happen('NodeJoined')
  await rig.stored()
  const page = await rig.page('?since=3')
  t.match(page, { mode: 'normal', counted: 5, gaps: [[4, 5]] })
  t.notOk(page.degraded)
  t.ok(readdirSync(join(rig.home, 'events')).some((name) => name.startsWith('seg-')))
})

diskTest('a damaged file is told of, by an event and in the log of the node', async (t) => {
  let damaged = false
  const load: StoreParts['load'] = async () => async (path, make) => {
    const db = await openDb(path, make)
    return { ...db, run: async (sql, values) => {
      if (damaged && sql.startsWith('INSERT')) {
        damaged = false
        throw new DbError('malformed', 'SQLITE_CORRUPT')
      }
      await db.run(sql, values)
    } }
  }
  const rig = await startLog(t, { parts: { load } })
  rig.happen('NodeJoined')
  await rig.stored()
  damaged = true
  rig.happen('NodeJoined')
  await rig.stored()
  const [event] = rig.events.filter(({ kind }) => kind === 'LogCorrupt')
  t.match(event!.payload,
    { nodeId: String, file: /^seg-1\.db\.corrupt-\d+$/, from: 1, errorMessage: 'malformed' })
  t.match(rig.logged.find(({ level }) => level === 'error'), { message: /set aside/ })
})

t.test('a disk that does not answer holds no start up: memory is used', async (t) => {
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => { clearInterval(alive) })
  const limits = { ...STORE_LIMITS, patienceMs: 20 }
  const rig = await startLog(t, { parts: { load: () => new Promise(() => {}), limits }, clock: systemClock })
  t.match(rig.conflicts(), [{ code: 'event_log_unavailable', message: /did not respond within 20 ms/ }])
  rig.happen('NodeJoined')
  t.match(await rig.page(), { mode: 'memory', events: [{ idx: 1 }] })
})

t.test('what a stalled disk does to the log: nothing', async (t) => {
  let stalled: Promise<void> | null = null
  let release = (): void => {}
  const load: StoreParts['load'] = async () => async (path, make) => {
    const db = await openDb(path, make)
    return { ...db, run: async (sql, values) => {
      await stalled
      await db.run(sql, values)
    } }
  }
  const rig = await startLog(t, { parts: { load } })
  stalled = new Promise((resolve) => { release = resolve })
  for (let i = 0; i < 1000; i++) rig.happen('NodeJoined')
  t.same(idxs(await rig.page('?limit=2')), [999, 1000])
  t.same(idxs(await rig.page('?since=0&limit=2')), [1, 2])
  release()
  stalled = null
  await rig.stored()
})
