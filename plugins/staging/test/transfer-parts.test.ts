import { Readable } from 'node:stream'
import t from 'tap'
import { systemClock } from '../../../kernel/index.js'
import { chunksOf } from '../transfer/chunks.js'
import { fetchModel } from '../transfer/fetch.js'
import { Job } from '../transfer/job.js'
import { diskError, type ChunkSource } from '../transfer/types.js'
import { SPACE_BYTES, Tally } from '../transfer/progress.js'
import { contentOf, manifestOf } from './transfer-kit.js'
import type { ModelManifest, Progress } from '../types.js'

const file = { path: 'a', size: 3 * SPACE_BYTES, sha256: '', chunkSha256: ['', ''] }
const manifest: ModelManifest = {
  modelId: 'acme/model', revision: '', totalBytes: file.size, chunkBytes: 1, files: [file]
}

t.test('errors of the disk by their kind', async (t) => {
  for (const [code, reason] of [
    ['ENOSPC', 'disk_full'], ['EDQUOT', 'disk_full'], ['EROFS', 'unwritable'], ['EIO', 'unwritable']
  ] as const) {
    const cause = Object.assign(new Error(`${code}: of the system`), { code })
    const error = diskError(cause, 'weights.onnx')
    t.match(error, { reason, cause, message: new RegExp(`weights.onnx: ${code}.*then start it again`) })
    t.equal(diskError(error, 'x'), error, 'stays as it is')
  }
})

t.test('space is asked for every 1 GiB of new bytes', async (t) => {
  const asked: number[] = []
  const full = new Error('no safe fit')
  const refused: unknown[] = []
  const tally = new Tally({
    manifest,
    space: async (toGo) => { asked.push(toGo); if (asked.length === 2) throw full }
  }, chunksOf(manifest), (error) => { refused.push(error) })
  tally.has(100)
  t.equal(tally.wrote(SPACE_BYTES - 1), undefined)
  await tally.wrote(1)
  t.same(asked, [2 * SPACE_BYTES - 100], 'kept bytes are no new ones, but need no more room')
  await t.rejects(tally.wrote(SPACE_BYTES)!, full)
  t.same(refused, [full])
})

t.test('lost bytes count no more; a job shows no lower figure for them', async (t) => {
  const told: Progress[] = []
  const job = new Job('acme/model', null, { clock: systemClock, onChange: () => {} })
  const shown: number[] = []
  const onProgress = (progress: Progress): void => {
    told.push(progress)
    job.moved(progress)
    shown.push(job.progress.bytes)
  }
  const tally = new Tally({ manifest, onProgress }, chunksOf(manifest), () => {})
  tally.wrote(500)
  tally.lost(500)
  tally.wrote(300)
  tally.wrote(300)
  tally.completed(file.path)
  tally.completed(file.path)
  t.same(told.map(({ bytes }) => bytes), [500, 300, 600, 600, 600])
  t.same(shown, [500, 500, 600, 600, 600])
  t.same(told.at(-1), { bytes: 600, totalBytes: file.size, files: 1, totalFiles: 1 })
})

t.test('a rest that ends between two looks at the clock is not waited for in vain', async (t) => {
  const small = contentOf({ a: 100 })
  // Each call of `mono` advances the time by 1 ms, which is less than a pause between retries.
  let looks = 0
  const clock = { ...systemClock, mono: () => ++looks, after: (_ms: number, fn: () => void) =>
    systemClock.after(0, fn) }
  for (let seed = 0; seed < 40; seed++) {
    let failures = 3
    const source: ChunkSource = {
      id: 'store', kind: 'store', has: () => true,
      async read () {
        if (failures-- > 0) throw new Error('broken')
        return Readable.from([small.get('a')!])
      }
    }
    const folder = t.testdir()
    const done = fetchModel({
      manifest: manifestOf(small), folder, sources: () => [source], clock, random: () => seed / 40,
      limits: { backoffMs: 4, backoffMaxMs: 8, retries: 50, idleMs: 1e9, connectMs: 1e9, floorWindowMs: 1e9 }
    })
    // This timer keeps the process alive, unlike the clock's own timers.
    let timer: NodeJS.Timeout | undefined
    const late = new Promise((resolve) => { timer = setTimeout(() => { resolve('late') }, 2000) })
    t.equal(await Promise.race([done.then(() => 'whole'), late]), 'whole', `seed ${seed}`)
    clearTimeout(timer)
  }
})
