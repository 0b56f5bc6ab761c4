import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { monitorLoop } from '../../../kernel/index.js'
import { EVENT_BYTES } from '../replication/outbox.js'
import { STORE_LIMITS } from '../store/types.js'
import { chain, diskTest, everything, full, openRig, tempFolder, type StoreRig } from './store-kit.js'
import type { Entry } from '../log/entries.js'

const files = (folder: string): string[] => readdirSync(folder).filter((name) => /^seg-\d+\.db$/.test(name))
const small = { fileBytes: 100_000, totalBytes: 300_000, keepEntries: 150 }

async function feed ({ store }: StoreRig, entries: readonly Entry[], group = 100): Promise<void> {
  for (let i = 0; i < entries.length; i += group) {
    store.append(entries.slice(i, i + group))
    await store.flushed()
  }
}

diskTest('T-L06: the oldest files are deleted whole; the newest entries keep their indices', async (t) => {
  const folder = tempFolder(t)
  const rig = await openRig(t, folder, { limits: small })
  const entries = chain(3000, { text: 'x'.repeat(200) })
  await feed(rig, entries)
  const kept = await everything(rig.store)
  const first = rig.store.status().firstIdx!
  t.ok(first > 1 && kept.length >= 150, `${kept.length} entries are kept from ${first} on`)
  t.same(kept, entries.slice(first - 1), 'without a gap')
  t.same(rig.store.status().gaps, [[1, first - 1]], 'but for what was deleted')
  t.ok(rig.store.status().bytes < small.totalBytes + 2 * small.fileBytes)
  await rig.store.close()
  const sizes = files(folder).map((name) => statSync(join(folder, name)).size)
  t.ok(sizes.length <= 5 && sizes.every((size) => size < 2 * small.fileBytes), `sizes: ${sizes.join()}`)
  t.same(readdirSync(folder).filter((name) => !name.startsWith('seg-')), ['position'], 'nothing else is left')
  const again = await openRig(t, folder, { limits: small })
  t.same(await everything(again.store), kept)
  const next = chain(1, { after: entries.at(-1)! })
  again.store.append(next)
  await again.store.flushed()
  t.same((await everything(again.store)).at(-1), next[0])
})

diskTest('the newest stay whatever their size, and the largest there may be fit', async (t) => {
  const rig = await openRig(t, tempFolder(t), { limits: small })
  await feed(rig, chain(1000, { text: 'x'.repeat(2000) }))
  t.ok((await everything(rig.store)).length >= 150)
  const { keepEntries, totalBytes } = STORE_LIMITS
  t.ok(keepEntries * (EVENT_BYTES + 500) <= totalBytes * 3 / 4, 'a quarter is left for snapshots')
})

diskTest('a file begins with the newest snapshot before it, so that one can be shown', async (t) => {
  const rig = await openRig(t, tempFolder(t), { limits: small })
  const entries = chain(3000, { text: 'x'.repeat(200) })
  rig.store.record({ idx: 0, at: 1, sid: 's', cause: 'minute', body: '{"early":1}' })
  await feed(rig, entries)
  const first = rig.store.status().firstIdx!
  t.ok(first > 1)
  t.equal((await rig.store.snapshotBefore({ idx: first }))?.body, '{"early":1}')
})

diskTest('snapshots never take all the room: they are thinned out', async (t) => {
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

diskTest('with few events the snapshots stay within their part of one file', async (t) => {
  const rig = await openRig(t, tempFolder(t),
    { limits: { ...small, fileBytes: 1_000_000, totalBytes: 4e6 } })
  rig.store.append(chain(1))
  for (let at = 1; at <= 500; at++) {
    rig.store.record({ idx: 1, at, sid: 's', cause: 'minute', body: 'y'.repeat(10_000) })
    if (at % 10 === 0) await rig.store.flushed()
  }
  t.ok(rig.store.status().bytes < 1_500_000)
  t.equal(files(rig.folder).length, 1)
  t.equal((await rig.store.snapshotBefore({ ms: 999 }))!.at, 500, 'the newest is kept')
  t.ok((await rig.store.snapshotBefore({ ms: 250 })) !== null, 'and some of the older ones')
})

diskTest('the event loop goes on while files are closed and deleted', async (t) => {
  const rig = await openRig(t, tempFolder(t))
  const loop = monitorLoop()
  t.teardown(() => { loop.stop() })
  const text = 'x'.repeat(900)
  let last = chain(1, { text })
  let worst = 0
  for (let deleted = false; !deleted;) {
    last = chain(200, { after: last.at(-1)!, text })
    rig.store.append(last)
    loop.reset()
    await rig.store.flushed()
    worst = Math.max(worst, loop.read().max)
    deleted = (rig.store.status().firstIdx ?? 0) > 2
  }
  t.comment(`longest block: ${worst.toFixed(1)} ms`)
}, full ? false : 'only in the long form')
