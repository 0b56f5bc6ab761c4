import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chain, diskTest, everything, openDb, openRig, tempFolder, until } from './store-kit.js'
import type { Test } from 'tap'
import type { Entry } from '../log/entries.js'
import type { StoreRig } from './store-kit.js'

const segments = (folder: string): number[] => readdirSync(folder)
  .filter((name) => /^seg-\d+\.db$/.test(name)).map((name) => Number(name.slice(4, -3))).sort((a, b) => a - b)

async function feed ({ store }: StoreRig, entries: readonly Entry[]): Promise<void> {
  for (let i = 0; i < entries.length; i += 50) {
    store.append(entries.slice(i, i + 50))
    await store.flushed()
  }
}

const SMALL = { fileBytes: 100_000, totalBytes: 1e12, keepEntries: 100 }

/** A folder with several segments; one that is not the newest is damaged in the middle. */
async function withDamage (t: Test): Promise<{
  folder: string, entries: Entry[], from: number, to: number
}> {
  const folder = tempFolder(t)
  const rig = await openRig(t, folder, { limits: SMALL })
  const entries = chain(1000, { text: 'x'.repeat(200) })
  await feed(rig, entries)
  await rig.store.close()
  const firsts = segments(folder)
  t.ok(firsts.length >= 4, `${firsts.length} segments`)
  const [from, next] = firsts.slice(-3) as [number, number]
  const path = join(folder, `seg-${from}.db`)
  const bytes = readFileSync(path)
  const middle = Math.floor(statSync(path).size / 8192) * 4096
  writeFileSync(path, bytes.fill(0xa5, middle - 8192, middle + 8192))
  return { folder, entries, from, to: next - 1 }
}

diskTest('damage in an older segment that shows in a read: it is set aside, the rest is read', async (t) => {
  const { folder, entries, from, to } = await withDamage(t)
  const rig = await openRig(t, folder, { limits: SMALL })
  t.same(rig.damaged, [], 'the start looks through the newest only')
  const [newest, page] = await Promise.all([
    rig.store.read({ after: 0, limit: 1000, newest: true }), rig.store.read({ after: from - 1, limit: 1000 })
  ])
  t.same(newest, [...entries.slice(0, from - 1), ...entries.slice(to)], 'what a start has')
  t.same(page, entries.slice(to), 'two that find it at once: both have the rest')
  t.match(rig.damaged, [{ from, error: /malformed/ }])
  t.ok(existsSync(rig.damaged[0]!.file), 'the evidence is kept')
  t.same(await everything(rig.store), [...entries.slice(0, from - 1), ...entries.slice(to)])
  await rig.store.flushed()
  t.match(rig.store.status(), { mode: 'normal', gaps: [[from, to]] })
  await rig.store.close()
  const again = await openRig(t, folder, { limits: SMALL })
  t.same([again.damaged, again.store.status().gaps], [[], [[from, to]]])
})

diskTest('a cut into a damaged segment takes the whole of it away, and all goes on', async (t) => {
  const { folder, entries, from } = await withDamage(t)
  const rig = await openRig(t, folder, { limits: SMALL })
  rig.store.cut(from + 50)
  const other = chain(20, { after: entries[from + 49]!, sid: 's2' })
  rig.store.append(other)
  await rig.store.flushed()
  t.match(rig.damaged, [{ from, error: /malformed/ }])
  t.match(rig.store.status(), { mode: 'normal', gaps: [[from, from + 50]] })
  t.same(await everything(rig.store), [...entries.slice(0, from - 1), ...other])
  await rig.store.close()
  t.same((await openRig(t, folder, { limits: SMALL })).store.status().gaps, [[from, from + 50]])
})

diskTest('a damaged file does not keep the old ones from being deleted', async (t) => {
  const { folder, entries } = await withDamage(t)
  const limits = { ...SMALL, totalBytes: 300_000, keepEntries: 100 }
  const rig = await openRig(t, folder, { limits })
  const more = chain(600, { after: entries.at(-1)!, text: 'x'.repeat(200) })
  await feed(rig, more)
  t.ok(segments(folder).length <= 5, `${segments(folder).length} segments`)
  const kept = await everything(rig.store)
  t.same(kept.slice(-100), more.slice(-100))
})

diskTest('a cut while writing begins again after a stop', async (t) => {
  const entries = chain(20)
  const other = chain(20, { after: entries[4]!, sid: 's2' })
  let free = 100
  let meanwhile = (): void => {}
  const rig: StoreRig = await openRig(t, tempFolder(t), {
    freeBytes: async () => free,
    limits: { floorBytes: 10, checkEntries: 10 },
    openDb: async (path, make) => {
      const db = await openDb(path, make)
      return { ...db, run: async (sql, values) => {
        if (sql.startsWith('CREATE TABLE')) meanwhile()
        await db.run(sql, values)
      } }
    }
  })
  free = 0
  rig.store.append(entries.slice(0, 10))
  await until(() => rig.store.status().mode === 'counting-only')
  rig.store.append(entries.slice(10, 15))
  meanwhile = () => {
    meanwhile = () => {}
    rig.store.cut(5)
    rig.store.append(other.slice(0, 2))
  }
  free = 100
  await until(() => rig.store.status().mode === 'normal')
  rig.store.append(other.slice(2))
  await rig.store.flushed()
  t.same(await everything(rig.store), [...entries.slice(0, 5), ...other.slice(2)])
  t.same(rig.store.status().gaps, [[6, 7]])
  t.same(rig.gaps, [{ from: 6, to: 7, count: 2 }])
  await rig.store.close()
  const again = await openRig(t, rig.folder)
  t.same(again.store.status().gaps, [[6, 7]])
  t.same(await everything(again.store), [...entries.slice(0, 5), ...other.slice(2)])
})

diskTest('a stop while writing begins again waits for that: nothing is left open', async (t) => {
  let free = 0
  let open = 0
  let held = false
  let release = (): void => {}
  const gate = new Promise<void>((resolve) => { release = resolve })
  const rig = await openRig(t, tempFolder(t), {
    freeBytes: async () => free,
    limits: { floorBytes: 10 },
    openDb: async (path, make) => {
      if (make) {
        held = true
        await gate
      }
      const db = await openDb(path, make)
      open++
      return { ...db, close: async () => { await db.close(); open-- } }
    }
  })
  rig.store.append(chain(3))
  free = 100
  await until(() => held)
  const closed = rig.store.close()
  setImmediate(release)
  await closed
  t.equal(rig.store.status().mode, 'normal')
  t.equal(open, 0)
})

diskTest('a stop while the disk is looked at is the end of the looking', async (t) => {
  let looks = 0
  let gate: Promise<void> | null = null
  let release = (): void => {}
  const rig = await openRig(t, tempFolder(t), {
    limits: { floorBytes: 10 },
    freeBytes: async () => {
      looks++
      await gate
      return 0
    }
  })
  gate = new Promise((resolve) => { release = resolve })
  await until(() => looks === 2)
  const closed = rig.store.close()
  release()
  await closed
  await new Promise((resolve) => { setTimeout(resolve, 50) })
  t.equal(looks, 2)
})
