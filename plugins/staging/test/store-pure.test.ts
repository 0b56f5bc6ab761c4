import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../kernel/index.js'
import { PathError } from '../files/names.js'
import { parseSource } from '../store/types.js'
import { readDownload, writeDownload, type Download, type DownloadRecord } from '../store/download.js'
import { failureOf, Job } from '../transfer/job.js'
import { RateMeter } from '../transfer/progress.js'
import { ID } from './store-kit.js'

t.test('the rate is that of the last ten seconds', async (t) => {
  const meter = new RateMeter()
  t.equal(meter.rate(0), 0)
  meter.add(500, 0)
  t.equal(meter.rate(1000), 0, 'the first count is only a mark')
  for (let ms = 100; ms <= 5000; ms += 100) meter.add(500 + ms, ms)
  t.equal(meter.rate(5000), 1000)
  for (let ms = 5100; ms <= 20_000; ms += 100) meter.add(500 + 5000 + (ms - 5000) * 3, ms)
  t.equal(meter.rate(20_000), 3000, 'what was before does not count')
  t.equal(meter.rate(25_000), 1500, 'nothing for half of the window')
  t.equal(meter.rate(60_000), 0, 'nothing at all')
})

t.test('counts that come faster than the grain are one, and none is lost', async (t) => {
  const meter = new RateMeter(1000)
  meter.add(0, 0)
  for (let i = 1; i <= 500; i++) meter.add(i * 10, i)
  t.equal(meter.rate(500), 10_000)
})

t.test('sources', async (t) => {
  t.same(parseSource('hub'), { kind: 'hub' })
  t.same(parseSource('file:///models/a%20b'), { kind: 'file', path: '/models/a b' })
  t.same(parseSource('node:01JABC-x.y_z'), { kind: 'node', installId: '01JABC-x.y_z' })
  const wrong = [
    '', 'HUB', 'file://host/a', 'file:models', 'file:///a%00b', 'file:///a%2fb', 'file:///%zz', 'node:',
    'node:../x', `node:${'a'.repeat(129)}`, 'https://example.org/x', '/models/a', 'x'.repeat(10_000)
  ]
  for (const text of wrong) {
    t.throws(() => parseSource(text), { name: 'StoreError', reason: 'bad_source' }, text.slice(0, 40))
  }
  t.throws(() => parseSource('x'.repeat(10_000)), { message: /^.{0,400}$/ }, 'a long one is not repeated')
})

t.test('errors keep the reason they come with', async (t) => {
  const hub = Object.assign(new Error('the hub says no'), { reason: 'gated' })
  t.same(failureOf(hub), { reason: 'gated', message: 'the hub says no' })
  t.match(failureOf(Object.assign(new Error('x'), { code: 'ENOSPC' })), { reason: 'disk_full' })
  t.match(failureOf(Object.assign(new Error('x'), { code: 'EROFS' })), { reason: 'unwritable' })
  t.match(failureOf(new PathError('x')), { reason: 'bad_path' })
  t.match(failureOf(new TypeError('boom')), { reason: 'internal', message: 'boom' })
})

const file = { path: 'a/model.onnx', size: 5, sha256: 'a'.repeat(64), gitSha1: null }
const selection = {
  modelId: ID, commit: 'b'.repeat(40), revision: 'main', files: [file], totalBytes: 5, licence: null,
  languages: []
}
const record: DownloadRecord = {
  format: 1,
  source: 'hub',
  revision: 'main',
  allow: ['*.onnx'],
  variant: 'q4',
  state: 'paused',
  attempts: 1,
  error: null,
  reason: null,
  startedAt: '2026-01-01T00:00:00.000Z',
  totalBytes: 5,
  selection
}

t.test('a job is read as it was written', async (t) => {
  const folder = join(t.testdir({ incoming: {} }), 'incoming', 'acme--voice')
  t.equal(await readDownload(folder, ID), undefined)
  const { source, revision, allow, variant, startedAt, totalBytes } = record
  const request = { source, revision, allow, variant }
  const past = { bytes: 0, totalBytes, startedAt }
  const parts = { clock: systemClock, onChange: () => {}, past }
  const job: Download = new Job(ID, { request, selection, attempts: 1 }, parts)
  await writeDownload(folder, job, 'paused')
  t.same(await readDownload(folder, ID), record)
  t.equal(await readDownload(folder, 'acme/other'), undefined, 'its files are of another model')
  job.ask.selection = null
  await writeDownload(folder, job, 'failed', { message: 'no', reason: 'hash' })
  t.match(await readDownload(folder, ID), { selection: null, state: 'failed', error: 'no', reason: 'hash' })
})

t.test('a job file that is not whole counts as none', async (t) => {
  const folder = t.testdir()
  for (const text of ['', '{', 'null', '[]', '"x"', '{"format":2}']) {
    writeFileSync(join(folder, '.svc-job.json'), text)
    t.equal(await readDownload(folder, ID), undefined, text)
  }
  const other = t.testdir()
  mkdirSync(join(other, '.svc-job.json'))
  t.equal(await readDownload(other, ID), undefined, 'a folder')
})

t.test('each field of a job file is checked', async (t) => {
  const folder = t.testdir()
  const read = async (value: object): Promise<unknown> => {
    writeFileSync(join(folder, '.svc-job.json'), JSON.stringify(value))
    return await readDownload(folder, ID)
  }
  t.same(await read(record), record)
  const wrong: Record<string, unknown> = {
    state: { state: 'running' },
    totalBytes: { totalBytes: -1 },
    'a selection of another model': { selection: { ...selection, modelId: 'x/y' } },
    commit: { selection: { ...selection, commit: 'main' } },
    sum: { selection: { ...selection, totalBytes: 6 } },
    'no files': { selection: { ...selection, files: [], totalBytes: 0 } },
    'too many files': {
      selection: { ...selection, files: Array(16_385).fill(file), totalBytes: 5 * 16_385 }
    },
    path: { selection: { ...selection, files: [{ ...file, path: '../../etc/passwd' }] } },
    size: { selection: { ...selection, files: [{ ...file, size: 5.5 }], totalBytes: 5.5 } },
    'no hash': { selection: { ...selection, files: [{ ...file, sha256: null }] } }
  }
  for (const [name, change] of Object.entries(wrong)) {
    t.equal(await read({ ...record, ...change as object }), undefined, name)
  }
})
