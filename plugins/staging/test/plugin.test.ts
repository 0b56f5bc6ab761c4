import {
  existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { manualClock, startPlugin } from '../../../kernel/testing/index.js'
import staging from '../index.js'
import { modelsService } from '../manager/start.js'
import { ModelsService } from '../service.js'
import { effective } from '../settings.js'
import { Leases } from '../space/leases.js'
import { gguf, llama } from './cards-kit.js'
import { recordOf } from './files-kit.js'
import { startHub } from './hub-kit.js'
import { call, codes, errorOf, eventsOf, pull, reasonOf, scratch, startNode, until } from './manager-kit.js'
import { card } from '../../runners/test/samples.js'
import type { ModelManager } from '../manager/manager.js'

const ID = 'acme/llama'
const LLAMA = gguf(llama)

const section = { cleanup_on_deactivate: true, staging_keep_recent_gb: 40, node_cache_path: '/a' }
const node = { name: 'one', installId: 'id-1' }
t.same(effective(section, {}, node), section)
t.same(effective(section, { one: { staging_keep_recent_gb: 0 } }, node),
  { cleanup_on_deactivate: true, staging_keep_recent_gb: 0, node_cache_path: '/a' })
const both = { one: { node_cache_path: '/b' }, 'id-1': { cleanup_on_deactivate: false } }
t.same(effective(section, both, node), { ...section, cleanup_on_deactivate: false },
  'the install id counts before the name')

t.test('the storage breakdown', async (t) => {
  const root = scratch(t)
  const put = (folder: string, usedAt: number): void => {
    mkdirSync(join(root, folder, 'onnx'), { recursive: true })
    const files = { 'onnx/model.onnx': 'x'.repeat(1000) }
    const id = folder.replace('--', '/')
    const record = { format: 1, ...recordOf(id, files), card: card(id) }
    writeFileSync(join(root, folder, 'onnx', 'model.onnx'), files['onnx/model.onnx'])
    writeFileSync(join(root, folder, '.svc-record.json'), JSON.stringify(record))
    writeFileSync(join(root, folder, '.last_used'), '')
    utimesSync(join(root, folder, '.last_used'), usedAt, usedAt)
  }
  mkdirSync(join(root, 'models--of--somebody'))
  put('acme--old', 1000)
  put('acme--new', 2000)
  mkdirSync(join(root, '.incoming'))
  symlinkSync('/', join(root, 'acme--old', 'link'))
  const show = async (allow: string[]): Promise<Record<string, unknown>> => {
    const rig = await startPlugin(t, staging, { allow, settings: { node_cache_path: root } })
    const release = rig.service(ModelsService).use('acme/new', 'instance i')
    const answer = await call(rig, 'GET', '/store/storage')
    release()
    t.equal(answer.status, 200, JSON.stringify(answer.body))
    await rig.stop()
    return answer.body
  }
  const shown = await show(['read', 'operator'])
  t.match(shown, {
    nodeId: String, stagingRoot: root, stagedTotalBytes: 2000, eventLogBytes: Number, eventLogMode: null,
    diskTotalBytes: Number, diskFreeBytes: Number
  })
  t.match(shown['stagedModels'], [
    {
      modelId: 'acme/new', directory: join(root, 'acme--new'), sizeBytes: 1000, lastUsedEpochSeconds: Number,
      inUse: true, in_use: true
    },
    { modelId: 'acme/old', sizeBytes: 1000, lastUsedEpochSeconds: 1000, inUse: false, in_use: false }
  ])
  t.match(await show(['read']), {
    stagingRoot: null, stagedModels: [{ modelId: 'acme/new', directory: null }, { directory: null }]
  }, 'paths are for the operator')
})

t.test('a download that does not fit is an event, and names the setting of the store', async (t) => {
  const rig = await startNode(t, { store: scratch(t), headroomBytes: 2 ** 60 })
  const folder = scratch(t)
  writeFileSync(join(folder, 'm.gguf'), LLAMA)
  const { status, reason, error } = await pull(rig, ID, { source: pathToFileURL(folder).href })
  t.match([status, reason], ['failed', 'no_safe_fit'])
  t.match(error, /\(model_store\.store_path in svc\.yaml\)/)
  t.match(eventsOf(rig, 'DownloadFailed'),
    [{ modelId: ID, attemptId: String, reason: 'no_safe_fit', errorMessage: error }])
})

t.test('an absent staging folder is made, and holds nothing', async (t) => {
  const root = join(scratch(t), 'deep', 'staging')
  const rig = await startNode(t, { staging: root })
  const { status, body } = await call(rig, 'GET', '/store/storage')
  t.equal(status, 200)
  t.match(body, { stagedModels: [], stagedTotalBytes: 0 })
  t.ok(statSync(root).isDirectory())
  t.same(codes(rig), [])
})

t.test('folders that cannot be used are told as staging_unusable; the rest works', async (t) => {
  const folder = scratch(t)
  writeFileSync(join(folder, 'file'), '')
  const rig = await startNode(t, { staging: join(folder, 'file', 'x'), store: join(folder, 'file') })
  const health = await call(rig, 'GET', '/store/health')
  t.same(codes(rig), ['staging_unusable'])
  t.match(health, { status: 503 }, 'a store that cannot be opened is none')
  t.equal((await call(rig, 'GET', '/v1/models')).status, 200)
  t.match((await call(rig, 'GET', '/store/registry')).status, 503)
})

t.test('without a store every call that makes none is store_not_configured', async (t) => {
  const rig = await startNode(t)
  const calls: [string, string, unknown?][] = [
    ['GET', '/store/health'], ['GET', '/store/registry'], ['GET', '/store/downloads'],
    ['GET', '/store/models/a/b/download/status'],
    ['POST', '/store/models/a/b/download/pause'], ['DELETE', '/store/models/a/b/download'],
    ['DELETE', '/store/models/a/b'], ['GET', '/store/models/a/b/manifest'],
    ['GET', '/store/models/a/b/files/c']
  ]
  for (const [method, url, body] of calls) {
    const answer = await call(rig, method, url, body)
    t.match(answer, { status: 503, body: { error: { reason: 'store_not_configured' } } }, `${method} ${url}`)
  }
})

t.test('a store: pull, look, stage, use, purge, delete', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': LLAMA,
    LICENSE: 'do what you like' } } } })
  t.teardown(async () => { await hub.close() })
  const [store, root] = [scratch(t), scratch(t)]
  const rig = await startNode(t, { store, staging: root, hub })
  t.match(await call(rig, 'GET', '/store/health'),
    { status: 200, body: { storePath: store, usedBytes: 0, freeBytes: Number, totalBytes: Number } })

  t.match(await pull(rig, ID), { modelId: ID, status: 'complete', progress: 1, error: null })
  t.match(eventsOf(rig, 'ModelStored'), [{ modelId: ID, revision: hub.commit(ID), totalBytes: Number }])
  t.match(await call(rig, 'GET', '/store/downloads'), { body: { downloads: [{ modelId: ID }] } })
  const registry = await call(rig, 'GET', '/store/registry')
  t.match(registry.body, {
    entries: [{ model_id: ID, store_path: join(store, 'acme--llama'), downloaded_at: /^2\d{3}-/,
      cached_on_nodes: [] }]
  })
  t.equal((await call(rig, 'GET', '/store/health')).body['usedBytes'], LLAMA.length + 16)

  const staged = await call(rig, 'POST', `/store/models/${ID}/stage`, { wait: true })
  const { nodeId } = (await call(rig, 'GET', '/store/storage')).body
  t.match(staged, { status: 200, body: { nodes: [{ nodeId, status: 'complete', error: null }] } })
  t.match(staged.body['message'], /1 of 1/)
  t.ok(existsSync(join(root, 'acme--llama', 'm.gguf')))
  t.equal(statSync(join(root, 'acme--llama', 'm.gguf')).nlink, 2, 'on one disk a hard link is a copy')
  t.match(eventsOf(rig, 'NodeDownloadProgress'), [
    { nodeId, modelId: ID, status: 'pending' },
    { nodeId, modelId: ID, status: 'completed', totalBytes: Number }
  ])
  t.match((await call(rig, 'GET', '/store/registry')).body, { entries: [{ cached_on_nodes: [nodeId] }] })
  t.match((await call(rig, 'GET', '/v1/models')).body,
    { object: 'list', data: [{ id: ID, installed: true, ready: false, created: Number }] })
  t.match((await call(rig, 'GET', '/state')).body, {
    downloads: { [nodeId as string]: [{ DownloadCompleted: { nodeId, modelId: ID, attemptId: String } }] }
  })

  const models = rig.service(ModelsService)
  await models.opened
  t.match(models.locate(ID), { kind: 'staged', directory: join(root, 'acme--llama') })
  t.same(models.located().map(({ card }) => card.modelId), [ID])
  models.serving(ID, true)
  t.match((await call(rig, 'GET', '/models')).body, { data: [{ id: ID, ready: true }] })
  models.serving(ID, false)
  const release = models.use(ID, 'instance one')
  t.match((await call(rig, 'POST', '/store/purge-staging', {})).body, {
    commandId: String, nodes: [{ nodeId, removed: [], skippedInUse: [ID], freedBytes: 0, error: null }]
  })
  t.equal((await call(rig, 'DELETE', `/store/models/${ID}`)).status, 200,
    'the store gives it up all the same')
  t.ok(existsSync(join(root, 'acme--llama')), 'what is in use stays')
  t.match(eventsOf(rig, 'ModelDeleted'), [{ nodeId, modelId: ID }])
  t.same(readdirSync(store).filter((name) => !name.startsWith('.')), [])
  release()
  t.match((await call(rig, 'POST', '/store/purge-staging', { modelId: ID })).body,
    { message: /Removed 1/, nodes: [{ removed: [ID], skippedInUse: [], error: null }] })
  t.notOk(existsSync(join(root, 'acme--llama')))
  t.match(eventsOf(rig, 'StagingPurged').at(-1), { nodeId, removed: [ID] })
  t.equal(models.locate(ID), undefined)
})

/** A second file system, which hard links cannot reach. */
const OTHER_DISK = tmpdir().startsWith('/dev/shm') ? join(process.cwd(), '.tap') : '/dev/shm'
const oneDisk = existsSync(OTHER_DISK) ? false : 'no second file system'

t.test('a transfer that does not fit is DownloadFailed and a conflict', { skip: oneDisk }, async (t) => {
  const [store, source] = [scratch(t), scratch(t)]
  writeFileSync(join(source, 'm.gguf'), LLAMA)
  const first = await startNode(t, { store })
  await pull(first, ID, { source: pathToFileURL(source).href })
  await first.stop()
  const root = join(OTHER_DISK, `svc-plugin-test-${process.pid}`)
  t.teardown(() => { rmSync(root, { recursive: true, force: true }) })
  const rig = await startNode(t, { store, staging: root, headroomBytes: 2 ** 60 })
  const staged = await call(rig, 'POST', `/store/models/${ID}/stage`, { wait: true })
  t.match(staged.body, { nodes: [{ status: 'failed', error: /must stay free/ }] })
  t.match(eventsOf(rig, 'DownloadFailed'), [{ modelId: ID, errorMessage: /must stay free/ }])
  t.equal(eventsOf(rig, 'DownloadFailed')[0]?.['reason'], 'no_safe_fit')
  t.same(codes(rig), ['download_failed'])
  await t.rejects(rig.service(ModelsService).ensure(ID),
    { name: 'SvcError', reason: 'no_safe_fit', status: 507 })
  await rig.stop()

  const roomy = await startNode(t, { store, staging: root })
  t.match((await call(roomy, 'POST', '/store/models/acme/none/stage', { wait: true })).body,
    { nodes: [{ status: 'failed', reason: 'model_not_found' }] })
  t.same(codes(roomy), [], 'a name that is none is no trouble of the node')
  t.match((await call(roomy, 'POST', `/store/models/${ID}/stage`, { wait: true })).body,
    { nodes: [{ status: 'complete' }] }, 'over two disks it is copied')
  t.same(codes(roomy), [])
})

t.test('ensure gives the copy that is here, or stages it', async (t) => {
  const [store, root, source] = [scratch(t), scratch(t), scratch(t)]
  writeFileSync(join(source, 'm.gguf'), LLAMA)
  const rig = await startNode(t, { store, staging: root })
  await pull(rig, ID, { source: pathToFileURL(source).href })
  const models = rig.service(ModelsService)
  t.match(await models.ensure(ID), { kind: 'staged', card: { modelId: ID } })
  const { signal } = new AbortController()
  t.match(await models.ensure(ID, undefined, signal), { directory: join(root, 'acme--llama') })
  rmSync(join(root, 'acme--llama'), { recursive: true })
  const { directory } = await models.ensure(ID)
  t.ok(existsSync(join(directory, 'm.gguf')), 'what was removed by hand is staged again')
  await t.rejects(models.ensure('acme/none'),
    { name: 'SvcError', reason: /^(model_not_found|download_failed)$/ })
  await t.rejects(models.ensure('acme/none2', undefined, AbortSignal.abort(new Error('enough'))),
    { message: 'enough' })
  t.match(models.card(ID), { modelId: ID })
  t.match(models.cards(), [{ card: { modelId: ID }, origin: 'staged' }])
})

t.test('a use while the copy is just going is model_going', (t) => {
  const leases = new Leases()
  const manager = { opened: Promise.resolve(), leases, ctx: { error: errorOf } } as unknown as ModelManager
  const models = modelsService(manager)
  const back = leases.going(ID, (used) => used === ID)
  t.throws(() => models.use(ID, 'a test'),
    { name: 'SvcError', reason: 'model_going', status: 503, retryable: true })
  t.equal(leases.has(ID), false)
  back()
  models.use(ID, 'a test')()
  t.end()
})

t.test('after the start idle copies beyond the budget are evicted; those just used stay', async (t) => {
  const [store, root, source] = [scratch(t), scratch(t), scratch(t)]
  writeFileSync(join(source, 'm.gguf'), LLAMA)
  const first = await startNode(t, { store, staging: root })
  for (const id of ['acme/old', 'acme/used', 'acme/new']) {
    await pull(first, id, { source: pathToFileURL(source).href })
    await first.service(ModelsService).ensure(id)
  }
  await first.stop()
  const long = Date.UTC(2025, 0, 1) / 1000
  for (const name of ['acme--old', 'acme--used']) {
    writeFileSync(join(root, name, '.last_used'), '')
    utimesSync(join(root, name, '.last_used'), long, long)
  }
  const clock = manualClock(Date.now())
  const rig = await startNode(t, {
    store, staging: root, start: { clock }, more: { staging: { staging_keep_recent_gb: 0 } }
  })
  const models = rig.service(ModelsService)
  await models.opened
  const release = models.use('acme/used', 'instance one')
  await clock.advance(14_000)
  t.equal(models.located().length, 3, 'runners have time to say what they need')
  await clock.advance(2000)
  await until(() => models.locate('acme/old') === undefined)
  t.match(eventsOf(rig, 'StagedModelEvicted'), [{ modelId: 'acme/old', trigger: 'startup' }])
  t.same(models.located().map(({ card }) => card.modelId).sort(), ['acme/new', 'acme/used'])
  release()
  await until(() => models.locate('acme/used') === undefined)
  t.match(eventsOf(rig, 'StagedModelEvicted').map(({ modelId }) => modelId).sort(),
    ['acme/new', 'acme/old', 'acme/used'], 'a budget of 0 keeps none after an instance has ended')
  t.match(eventsOf(rig, 'StagedModelEvicted').at(-1), { trigger: 'deactivation' })
})

t.test('uses before the pass of the start are written down; what ended by then goes after it', async (t) => {
  const [store, root, source] = [scratch(t), scratch(t), scratch(t)]
  writeFileSync(join(source, 'm.gguf'), LLAMA)
  const first = await startNode(t, { store, staging: root })
  for (const id of ['acme/ended', 'acme/goes-on']) {
    await pull(first, id, { source: pathToFileURL(source).href })
    await first.service(ModelsService).ensure(id)
  }
  await first.stop()
  const [ended, goesOn] = ['acme--ended', 'acme--goes-on'].map((name) => join(root, name, '.last_used'))
  for (const marker of [ended!, goesOn!]) {
    writeFileSync(marker, '')
    utimesSync(marker, 1000, 1000)
  }
  const clock = manualClock(Date.now())
  const rig = await startNode(t, {
    store, staging: root, start: { clock }, more: { staging: { staging_keep_recent_gb: 0 } }
  })
  const models = rig.service(ModelsService)
  await models.opened
  const release = models.use('acme/ended', 'instance one')
  models.use('acme/goes-on', 'instance two')
  await until(() => [ended!, goesOn!].every((marker) => statSync(marker).mtimeMs > 1_000_000))
  release()
  await clock.advance(14_000)
  t.equal(models.located().length, 2, 'others may still say what they need')
  await clock.advance(2000)
  await until(() => models.locate('acme/ended') === undefined)
  t.match(eventsOf(rig, 'StagedModelEvicted'), [{ modelId: 'acme/ended', trigger: 'deactivation' }])
  t.same(models.located().map(({ card }) => card.modelId), ['acme/goes-on'])
})

t.test('stopping while a download runs ends it; it goes on at the next start', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': LLAMA } } },
    faults: { stallAfter: 100 } })
  t.teardown(async () => { await hub.close() })
  const store = scratch(t)
  const rig = await startNode(t, { store, hub })
  await call(rig, 'POST', `/store/models/${ID}/download`, {})
  await until(() => hub.fetches('m.gguf').length > 0)
  await rig.stop()
  hub.faults = {}
  const again = await startNode(t, { store, hub })
  await until(async () =>
    (await call(again, 'GET', `/store/models/${ID}/download/status`)).body['status'] === 'complete')
  t.match(eventsOf(again, 'ModelStored'), [{ modelId: ID }])
  t.equal(reasonOf(await call(again, 'GET', '/store/models/a/none/manifest')), 'model_not_found')
})
