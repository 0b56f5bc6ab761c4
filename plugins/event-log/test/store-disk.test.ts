import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { START, type Entry } from '../log/entries.js'
import { chain, diskTest, everything, openRig, tempFolder, until } from './store-kit.js'
import type { Test } from 'tap'

const MIB = 1024 * 1024
const root = process.platform === 'linux' && process.getuid?.() === 0
const skip = root ? false : 'mounting a small disk needs root on Linux'

/** A small separate disk in memory; null if mounting is not permitted. */
function smallDisk (
  t: Test, mebibytes: number
): { folder: string, resize: (mebibytes: number) => void } | null {
  const folder = tempFolder(t)
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', folder]).status !== 0) {
    t.comment('skipped: this system lets nobody mount a disk')
    return null
  }
  t.teardown(() => { spawnSync('umount', ['-l', folder]) })
  return {
    folder: join(folder, 'events'),
    resize: (size) => { spawnSync('mount', ['-o', `remount,size=${size}m`, folder]) }
  }
}

const freeBytes = async (folder: string): Promise<number | null> =>
  await statfs(folder).then(({ bavail, bsize }) => bavail * bsize, () => null)

diskTest('T-L01, T-L02: a disk that fills, and one that gets room again', async (t) => {
  const disk = smallDisk(t, 8)
  if (disk === null) return
  const { folder } = disk
  const rig = await openRig(t, folder, {
    freeBytes: () => freeBytes(folder),
    limits: { floorBytes: 0, headroomBytes: 2 * MIB, holdMs: 20, checkMs: 10 }
  })
  const entries: Entry[] = []
  const append = (count: number): void => {
    const more = chain(count, { after: entries.at(-1) ?? START, text: 'x'.repeat(500) })
    entries.push(...more)
    rig.store.append(more)
  }
  while (rig.store.status().mode === 'normal') {
    append(200)
    await rig.store.flushed()
  }
  t.match(rig.logged.filter(({ level }) => level === 'fatal'),
    [{ message: /^CRITICAL/, fields: { why: /FULL|IOERR/ } }])
  append(100)
  const { counted, gaps } = rig.store.status()
  t.ok(counted >= 100)
  const stored = entries.length - counted
  t.same(gaps, [[stored + 1, entries.length]])
  t.same(await everything(rig.store), entries.slice(0, stored), 'what was acknowledged can be read')
  disk.resize(24)
  await until(() => rig.store.status().mode === 'normal')
  t.same(rig.gaps, [{ from: stored + 1, to: entries.length, count: counted }], 'exactly those')
  const before = entries.length
  append(300)
  await rig.store.flushed()
  t.same(await everything(rig.store), [...entries.slice(0, stored), ...entries.slice(before)])
  await rig.store.close()
  const again = await openRig(t, folder)
  t.same(again.store.status().gaps, [[stored + 1, before]])
  t.equal(again.store.reserved, entries.at(-1)!.idx)
}, skip)

diskTest('T-L03: a disk that is full at the start', async (t) => {
  const disk = smallDisk(t, 6)
  if (disk === null) return
  const { folder } = disk
  const entries = chain(500)
  const first = await openRig(t, folder)
  first.store.append(entries)
  await first.store.flushed()
  await first.store.close()
  const { bavail, bsize } = statfsSync(folder)
  writeFileSync(join(folder, 'ballast'), Buffer.alloc(bavail * bsize))
  t.equal(statfsSync(folder).bavail, 0)
  const small = {
    freeBytes: () => freeBytes(folder),
    limits: { floorBytes: MIB, headroomBytes: MIB, holdMs: 20, checkMs: 10 }
  }
  const rig = await openRig(t, folder, small)
  t.equal(rig.store.status().mode, 'counting-only')
  t.same(await everything(rig.store), entries, 'what is stored can be read')
  const more = chain(10, { after: entries.at(-1)! })
  rig.store.append(more)
  await rig.store.close()
  // A store that is reopened on the full disk still knows which events were only counted.
  const second = await openRig(t, folder, small)
  t.equal(second.store.reserved, 510)
  t.same(second.store.status().gaps, [[501, 510]])
  rmSync(join(folder, 'ballast'))
  await until(() => second.store.status().mode === 'normal')
  const next = chain(1, { after: { idx: 510, chain: '' } }).map((entry) => ({ ...entry, prev: 500 }))
  second.store.append(next)
  await second.store.flushed()
  await until(() => second.gaps.length > 0)
  t.same(second.gaps, [{ from: 501, to: 510, count: 10 }])
  t.same(await everything(second.store), [...entries, ...next])
}, skip)

diskTest('a folder that cannot be written, and one that cannot be made', async (t) => {
  const folder = tempFolder(t)
  writeFileSync(join(folder, 'file'), '')
  await t.rejects(openRig(t, join(folder, 'file', 'events')), { code: 'ENOTDIR' })
  mkdirSync(join(folder, 'position'))
  const rig = await openRig(t, folder)
  t.match(rig.logged, [{ level: 'warn', message: /position/ }])
  rig.store.append(chain(2))
  await rig.store.flushed()
  t.equal((await everything(rig.store)).length, 2)
  t.ok(readdirSync(folder).includes('seg-1.db'))
})
