import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { RunnersService } from '../../runners/service.js'
import { modelOf, volumeOf } from '../disk.js'
import staging from '../index.js'
import { effective } from '../settings.js'
import type { RunnerReport } from '../../runners/service.js'

const names: [string, string | undefined][] = [
  ['acme--x', 'acme/x'], ['a.b--c-d', 'a.b/c-d'], ['a--b--c', 'a/b--c'],
  ['.incoming', undefined], ['acme', undefined], ['--x', undefined], ['acme--', undefined]
]
for (const [folder, model] of names) t.equal(modelOf(folder), model, folder)

const section = { cleanup_on_deactivate: true, staging_keep_recent_gb: 40 }
const node = { name: 'one', installId: 'id-1' }
t.same(effective(section, undefined, {}, node),
  { cleanupOnDeactivate: true, keepRecentGib: 40, cachePath: null })
t.same(effective(section, '/a', { one: { staging_keep_recent_gb: 0 } }, node),
  { cleanupOnDeactivate: true, keepRecentGib: 0, cachePath: '/a' })
const both = { one: { node_cache_path: '/b' }, 'id-1': { cleanup_on_deactivate: false } }
t.same(effective(section, '/a', both, node),
  { cleanupOnDeactivate: false, keepRecentGib: 40, cachePath: '/a' }, 'the install id counts before the name')

t.test('the storage breakdown', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'svc-staged-'))
  t.teardown(() => { rmSync(root, { recursive: true, force: true }) })
  const put = (folder: string, usedAt: number): void => {
    mkdirSync(join(root, folder, 'onnx'), { recursive: true })
    writeFileSync(join(root, folder, 'onnx', 'model.onnx'), 'x'.repeat(1000))
    writeFileSync(join(root, folder, '.last_used'), '')
    utimesSync(join(root, folder, '.last_used'), usedAt, usedAt)
  }
  put('acme--old', 1000)
  put('acme--new', 2000)
  mkdirSync(join(root, '.incoming'))
  symlinkSync('/', join(root, 'acme--old', 'link'))
  const report = { modelId: 'acme/new', processAlive: true } as RunnerReport
  const start = async (allow: string[]): Promise<Record<string, unknown>> => {
    const fakes = [fake(RunnersService, { reports: () => [report] })]
    const rig = await startPlugin(t, staging, { allow, settings: { node_cache_path: root }, fakes })
    const answer = await rig.inject({ url: '/store/storage' })
    const errors = rig.logged.map((l) => String(l.fields['err']))
    t.equal(answer.statusCode, 200, answer.body + JSON.stringify(errors))
    return answer.json() as Record<string, unknown>
  }
  const shown = await start(['read', 'operator'])
  t.match(shown, {
    stagingRoot: root,
    stagedTotalBytes: 2000,
    eventLogBytes: Number,
    diskTotalBytes: Number,
    diskFreeBytes: Number
  })
  t.match(shown['stagedModels'], [
    {
      modelId: 'acme/new',
      directory: join(root, 'acme--new'),
      sizeBytes: 1000,
      lastUsedEpochSeconds: 2000,
      inUse: true,
      in_use: true
    },
    { modelId: 'acme/old', sizeBytes: 1000, lastUsedEpochSeconds: 1000, inUse: false, in_use: false }
  ])
  t.match(await start(['read']), {
    stagingRoot: null, stagedModels: [{ modelId: 'acme/new', directory: null }]
  })
})

t.test('an absent staging folder holds nothing', async (t) => {
  const rig = await startPlugin(t, staging, { settings: { node_cache_path: '/nonexistent/svc/staging' } })
  const answer = await rig.inject({ url: '/store/storage' })
  t.equal(answer.statusCode, 200, answer.body)
  t.match(answer.json(), { stagedModels: [], stagedTotalBytes: 0 })
  t.match(await volumeOf('/nonexistent/svc'), { totalBytes: Number })
})
