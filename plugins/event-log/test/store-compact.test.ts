import { createReadStream, mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createGunzip } from 'node:zlib'
import t from 'tap'
import { monitorLoop, systemClock } from '../../../kernel/index.js'
import { EVENT_BYTES } from '../limits.js'
import { Archiver } from '../store/archive.js'
import { compact } from '../store/compact.js'
import { STORE_LIMITS } from '../store/limits.js'
import { SegmentSet } from '../store/segments.js'
import { chain, everything, full, limits as roomy, openDb, openRig, tempFolder, until } from './store-kit.js'
import type { Entry } from '../entries.js'
import type { StoreRig } from './store-kit.js'

const idxs = (entries: readonly Entry[]): number[] => entries.map(({ idx }) => idx)
const archives = (folder: string): string[] => readdirSync(folder).filter((name) => name.endsWith('.gz'))
const packed = (folder: string): boolean => !readdirSync(folder).some((name) => name.startsWith('old-'))
const small = { segmentBytes: 100_000, ringBytes: 300_000, keepEntries: 150 }

/** Appends in groups, as it happens. */
async function feed ({ store }: StoreRig, entries: readonly Entry[], group = 100): Promise<void> {
  for (let i = 0; i < entries.length; i += group) {
    store.append(entries.slice(i, i + group))
    await store.flushed()
  }
}

t.test('compaction keeps the newest entries with their indices, and appending goes on', async (t) => {
  const folder = tempFolder(t)
  const rig = await openRig(t, folder, { limits: small })
  const entries = chain(1500, { text: 'x'.repeat(200) })
  rig.store.record({ idx: 0, at: 1, sid: 's', cause: 'minute', body: '{"early":1}' })
  await feed(rig, entries.slice(0, 500))
  rig.store.record({ idx: 500, at: 2, sid: 's', cause: 'minute', body: '{"middle":1}' })
  await feed(rig, entries.slice(500))
  const kept = await everything(rig.store)
  const first = rig.store.status().firstIdx!
  t.ok(first > 1 && kept.length >= 150, `${kept.length} entries are kept from ${first} on`)
  t.same(kept, entries.slice(first - 1), 'without a gap')
  t.ok(rig.store.status().bytes < 1_000_000)
  const before = await rig.store.snapshotBefore({ idx: first })
  t.ok(before !== null && before.idx <= first, 'the newest snapshot before the first entry is kept')
  t.same(rig.store.status().gaps, [])
  await until(() => archives(folder).length > 0 && packed(folder))
  await rig.store.close()
  const again = await openRig(t, folder, { limits: small })
  t.same(await everything(again.store), kept)
  const next = chain(1, { after: entries.at(-1)! })
  again.store.append(next)
  await again.store.flushed()
  t.same((await everything(again.store)).at(-1), next[0])
})

t.test('the newest stay whatever their size, and the largest there may be fit', async (t) => {
  const rig = await openRig(t, tempFolder(t), { limits: small })
  await feed(rig, chain(1000, { text: 'x'.repeat(2000) }))
  t.ok((await everything(rig.store)).length >= 150)
  const { keepEntries, ringBytes } = STORE_LIMITS
  t.ok(keepEntries * (EVENT_BYTES + 500) <= ringBytes * 3 / 4, 'a quarter is left for snapshots')
})

t.test('what waits to be packed is bounded while events come faster than it is packed', async (t) => {
  const folder = tempFolder(t)
  const lost: string[] = []
  const stop = new AbortController()
  const limits = { ...roomy, archiveRate: 1, waitingBytes: 2500 }
  const archiver = new Archiver({ folder, clock: systemClock, limits, signal: stop.signal,
    lost: (name) => { lost.push(name) } })
  const come = async (first: number): Promise<void> => {
    writeFileSync(join(folder, `old-${first}.db`), 'x'.repeat(1000))
    archiver.start()
    await until(() => archiver.bytes > 0 && old().length <= 3)
  }
  const old = (): string[] => readdirSync(folder).filter((name) => name.startsWith('old-'))
  for (let first = 1; first <= 9; first++) await come(first)
  // The one being packed stays, and the two newest.
  await until(() => old().length === 3)
  t.same(old(), ['old-1.db', 'old-8.db', 'old-9.db'])
  t.same(lost, [2, 3, 4, 5, 6, 7].map((first) => `old-${first}.db`))
  t.equal(archiver.bytes, 3000, 'what waits is counted')
  stop.abort()
  await archiver.settled()
})

t.test('T-L06: archives stay within their number and their size, and are databases', async (t) => {
  const folder = tempFolder(t)
  const rig = await openRig(t, folder, { limits: { ...small, archiveFiles: 3 } })
  await feed(rig, chain(3000, { text: 'x'.repeat(200) }), 200)
  await until(() => archives(folder).length === 3 && packed(folder))
  await rig.store.close()
  const newest = archives(folder).sort((a, b) => Number(/\d+/.exec(b)![0]) - Number(/\d+/.exec(a)![0]))[0]!
  const parts: Buffer[] = []
  const unpacking = createReadStream(join(folder, newest)).pipe(createGunzip())
  for await (const part of unpacking) parts.push(part as Buffer)
  const unpacked = join(tempFolder(t), 'unpacked.db')
  writeFileSync(unpacked, Buffer.concat(parts))
  const db = await openDb(unpacked, false)
  t.ok((await db.all<{ n: number }>('SELECT count(*) AS n FROM ev'))[0]!.n > 0)
  t.same(await db.all('PRAGMA quick_check'), [{ quick_check: 'ok' }])
  await db.close()
  // With less room, the next start's packing leaves fewer.
  renameSync(join(folder, newest), join(folder, 'seg-1.db.gz'))
  const bytes = statSync(join(folder, archives(folder).at(-1)!)).size
  const tight = await openRig(t, folder, { limits: { ...small, archiveBytes: bytes + 10 } })
  await feed(tight, chain(1500, { after: { idx: 3000, chain: '' }, text: 'x'.repeat(200) }), 200)
  await until(() => packed(folder) &&
    archives(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) <= bytes + 10)
})

t.test('an interrupted compaction is finished at the next start', async (t) => {
  const folder = tempFolder(t)
  const rig = await openRig(t, folder, { limits: { ...small, ringBytes: 1e12 } })
  const entries = chain(1000, { text: 'x'.repeat(200) })
  await feed(rig, entries)
  await rig.store.close()
  const limits = { ...roomy, ...small }
  const set = new SegmentSet({ folder, openDb, limits, now: () => 0, release: async () => {} })
  await set.scan()
  t.ok(set.list.length > 3)
  // Up to the moment when the new segment is there and all the old ones are too.
  await compact({ folder, openDb, limits, segments: set.list })
  const again = await openRig(t, folder, { limits })
  const kept = await everything(again.store)
  t.same(kept, entries.slice(-kept.length))
  t.ok(kept.length >= 150 && kept.length < 500)
  await until(() => archives(folder).length > 0)
})

t.test('snapshots never take all the room: they are thinned out', async (t) => {
  const rig = await openRig(t, tempFolder(t), { limits: small })
  const entries = chain(2000, { text: 'x'.repeat(100) })
  for (let i = 0; i < 2000; i += 20) {
    rig.store.append(entries.slice(i, i + 20))
    rig.store.record({ idx: i + 20, at: i, sid: 's', cause: 'minute', body: 'y'.repeat(20_000) })
    if (i % 200 === 0) await rig.store.flushed()
  }
  await rig.store.flushed()
  t.ok(rig.store.status().bytes < 2_000_000, `${rig.store.status().bytes} bytes`)
  t.ok((await everything(rig.store)).length >= 150)
  t.ok((await rig.store.snapshotBefore({ idx: 2000 }))!.idx > 1900)
})

t.test('what cannot be packed goes without, and a half packed archive leaves nothing', async (t) => {
  const folder = tempFolder(t)
  writeFileSync(join(folder, 'old-4.db'), 'x')
  const lost: string[] = []
  const make = (signal: AbortSignal): Archiver => new Archiver({
    folder, clock: systemClock, limits: { ...roomy, archiveRate: 1 }, signal,
    lost: (name) => { lost.push(name) }
  })
  const stop = new AbortController()
  const stopped = make(stop.signal)
  stopped.start()
  stop.abort()
  await stopped.settled()
  t.same([readdirSync(folder), lost], [['old-4.db'], []], 'a stop leaves it for the next time')
  mkdirSync(join(folder, 'seg-4.db.gz'))
  const failing = make(new AbortController().signal)
  failing.start()
  const alive = setInterval(() => {}, 1000)
  await failing.settled()
  clearInterval(alive)
  t.same(lost[0], 'old-4.db')
  t.same(readdirSync(folder), ['seg-4.db.gz'])
})

const long = { skip: full ? false : 'only in the long form' }

t.test('the event loop goes on while 256 MiB are compacted', long, async (t) => {
  const { segmentBytes, ringBytes, keepEntries } = STORE_LIMITS
  const rig = await openRig(t, tempFolder(t), { limits: { segmentBytes, ringBytes, keepEntries } })
  const loop = monitorLoop()
  t.teardown(() => { loop.stop() })
  const text = 'x'.repeat(900)
  let last = chain(1, { text })
  let worst = 0
  for (let compacted = false; !compacted;) {
    last = chain(200, { after: last.at(-1)!, text })
    rig.store.append(last)
    loop.reset()
    await rig.store.flushed()
    worst = Math.max(worst, loop.read().max)
    compacted = (rig.store.status().firstIdx ?? 0) > 2
  }
  t.comment(`longest block: ${worst.toFixed(1)} ms`)
})
