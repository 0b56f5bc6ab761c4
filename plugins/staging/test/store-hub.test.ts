import { existsSync, lstatSync, readFileSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startHub, type FakeHub, type HubFaults, type HubModel } from './hub-kit.js'
import {
  bytes, clientOf, derive, done, ended, ID, importFolder, memoryLog, MIB, names, open, RoomWatch, scratch,
  until, write
} from './store-kit.js'
import { FreeSpace } from '../space/free-space.js'
import { statusOf } from '../store/download.js'
import { derive as deriveCard } from './cards-kit.js'

const WEIGHTS = bytes(3 * MIB, 7)
const MODEL: HubModel = {
  files: { 'model.onnx': WEIGHTS, 'config.json': '{"a":1}', 'tokenizer.json': '{}', 'README.md': '# no' },
  licence: 'mit',
  languages: ['en']
}
const TOTAL = 3 * MIB + 9
/** A hub fault that stops sending the weights after the first MiB. */
const HELD: HubFaults = { only: ({ origin }) => origin === 'cdn', stallAfter: MIB }

async function hubFor (t: { teardown (fn: () => unknown): void }, model = MODEL): Promise<FakeHub> {
  const hub = await startHub({ models: { [ID]: model } })
  t.teardown(async () => { await hub.close() })
  return hub
}

t.test('a pull: bytes, record, status', async (t) => {
  const hub = await hubFor(t)
  const about: object[] = []
  const changed: string[] = []
  const store = await open(t, scratch(t), {
    hub: clientOf(hub),
    derive: async (folder, facts) => { about.push(facts); return await derive(folder, facts) },
    onChange: (modelId) => { changed.push(modelId) }
  })
  const job = store.start(ID)
  t.match(statusOf(job), { status: 'pending', source: 'hub', revision: null, progress: 0, etaMs: null })
  t.same(store.downloads(), [statusOf(job)])
  const commit = hub.commit(ID)
  t.match(await done(job), {
    modelId: ID, status: 'complete', progress: 1, error: null, reason: null, downloadedBytes: TOTAL,
    totalBytes: TOTAL, bytesPerSecond: 0, etaMs: null, source: 'hub', revision: commit
  })
  const { directory, ...entry } = store.get(ID)!
  t.match(entry, { source: `hub:${hub.url}@${commit}`, manifest: { revision: commit, totalBytes: TOTAL } })
  t.match(about, [{ modelId: ID, revision: commit, licence: 'mit', languages: ['en'] }])
  t.same(readFileSync(join(directory, 'model.onnx')), WEIGHTS)
  t.same(names(directory), ['.svc-record.json', 'config.json', 'model.onnx', 'tokenizer.json'])
  t.equal(lstatSync(join(directory, 'model.onnx')).mode & 0o777, 0o444)
  t.ok(changed.length > 2)

  const sent = hub.sent()
  t.match(await done(store.start(ID)), { status: 'complete', progress: 1, totalBytes: TOTAL })
  t.match(await done(store.start(ID, { source: 'hub', revision: 'main' })), { status: 'complete' })
  t.equal(hub.sent(), sent, 'the same commit costs no bytes')
})

t.test('an update fetches what changed only', async (t) => {
  const hub = await hubFor(t)
  const folder = scratch(t)
  const store = await open(t, folder, { hub: clientOf(hub) })
  await done(store.start(ID))
  hub.setModel(ID, { ...MODEL, files: { ...MODEL.files, 'config.json': '{"a":2}' } })
  hub.reset()
  t.match(await done(store.start(ID)), { status: 'complete', revision: hub.commit(ID) })
  t.equal(hub.sent('model.onnx'), 0)
  const { directory } = store.get(ID)!
  t.equal(readFileSync(join(directory, 'config.json'), 'utf8'), '{"a":2}', 'the same size, and still noticed')
  t.same(readFileSync(join(directory, 'model.onnx')), WEIGHTS)
  t.equal(lstatSync(join(directory, 'model.onnx')).nlink, 1)
  t.same(names(join(folder, '.trash')), [])
})

t.test('two starts are one download; other options are refused meanwhile', async (t) => {
  const hub = await hubFor(t)
  hub.faults = HELD
  const store = await open(t, scratch(t), { hub: clientOf(hub) })
  const first = store.start(ID, { allow: ['*.onnx'] })
  t.equal(store.start(ID, { allow: ['*.onnx'] }), first)
  const refusal = { name: 'StoreError', reason: 'download_running', message: /wait for it or cancel it/ }
  t.throws(() => store.start(ID), refusal)
  t.throws(() => store.start(ID, { source: 'file:///x' }), refusal)
  await until(() => statusOf(first).downloadedBytes === MIB)
  t.match(statusOf(first), { status: 'downloading', totalBytes: 3 * MIB, progress: 1 / 3 })
  hub.faults = {}
  await store.cancel(ID)
  t.match(await done(store.start(ID, { allow: ['*.onnx'] })), { status: 'complete' })
  t.equal(hub.requests.filter(({ url, status }) => url.includes('/revision/') && status === 200).length, 2)
  const { directory } = store.get(ID)!
  t.same(names(directory), ['.svc-record.json', 'model.onnx'])
  t.match(JSON.parse(readFileSync(join(directory, '.svc-record.json'), 'utf8')),
    { choice: { allow: ['*.onnx'], variant: null } }, 'so that a node can ask the hub for the same files')
})

t.test('paused and resumed: the files it began with, and no byte twice', async (t) => {
  const hub = await hubFor(t)
  hub.faults = HELD
  const folder = scratch(t)
  const store = await open(t, folder, { hub: clientOf(hub) })
  const commit = hub.commit(ID)
  const job = store.start(ID)
  await until(() => statusOf(job).downloadedBytes > MIB)
  const before = statusOf(job).downloadedBytes
  t.match(await store.pause(ID), { status: 'paused', error: null, bytesPerSecond: 0, revision: commit })
  t.match(await done(job), { status: 'paused' })
  t.match(await store.pause(ID), { status: 'paused' }, 'again is no error')
  hub.setModel(ID, { files: { 'model.onnx': bytes(3 * MIB, 8), 'config.json': 'new' } })
  hub.faults = {}
  hub.reset()
  const next = store.start(ID)
  t.ok(statusOf(next).downloadedBytes >= before, 'what was there still counts')
  t.match(await done(next), { status: 'complete', revision: commit })
  t.same(readFileSync(join(store.get(ID)!.directory, 'model.onnx')), WEIGHTS)
  t.equal(hub.sent('model.onnx'), 2 * MIB)
  await t.rejects(store.pause(ID), { name: 'StoreError', reason: 'no_download' })
})

t.test('after a restart running ones go on and paused ones stay', async (t) => {
  const models = { 'acme/runs': MODEL, 'acme/waits': MODEL, 'acme/left': MODEL }
  const hub = await startHub({ models, faults: HELD })
  t.teardown(async () => { await hub.close() })
  const folder = scratch(t)
  const first = await open(t, folder, { hub: clientOf(hub) })
  const jobs = Object.keys(models).map((modelId) => first.start(modelId))
  await until(() => jobs.every((job) => statusOf(job).downloadedBytes > MIB))
  const { startedAt } = first.status('acme/waits')
  await first.pause('acme/waits')
  await first.cancel('acme/left')
  await first.close()
  t.match(await done(jobs[0]!), { status: 'pending' })
  t.throws(() => first.start(ID), { name: 'StoreError', reason: 'closed' })

  hub.faults = {}
  hub.reset()
  const second = await open(t, folder, { hub: clientOf(hub) })
  t.match(second.status('acme/waits'), { status: 'paused', totalBytes: TOTAL, startedAt })
  t.ok(second.status('acme/waits').downloadedBytes >= MIB)
  t.match(second.status('acme/left'), { status: 'cancelled' })
  t.match(await ended(second, 'acme/runs'), { status: 'complete' })
  t.equal(hub.sent('model.onnx'), 2 * MIB, 'only the one, and only what it did not have')
  t.match(await done(second.start('acme/waits')), { status: 'complete' })
  t.match(await done(second.start('acme/left')), { status: 'complete' })
  t.equal(hub.sent('model.onnx'), 6 * MIB, 'what was cancelled was kept too')
})

t.test('a paused download is cancelled; its bytes are swept after a day', async (t) => {
  const hub = await hubFor(t)
  hub.faults = HELD
  const folder = scratch(t)
  const first = await open(t, folder, { hub: clientOf(hub) })
  const job = first.start(ID)
  await until(() => statusOf(job).downloadedBytes > MIB)
  await first.pause(ID)
  t.match(await first.cancel(ID), { status: 'cancelled' })
  await t.rejects(first.cancel(ID), { name: 'StoreError', reason: 'no_download' })
  await first.close()
  const incoming = join(folder, '.incoming', 'acme--voice')
  const second = await open(t, folder)
  t.match(second.status(ID), { status: 'cancelled' })
  await second.close()
  const old = new Date(Date.now() - 25 * 3600 * 1000)
  for (const name of [...names(incoming), '.']) utimesSync(join(incoming, name), old, old)
  const third = await open(t, folder)
  t.equal(existsSync(incoming), false)
  t.equal(third.status(ID).status, 'not_found')
})

t.test('failures of the hub are told as they are', async (t) => {
  const hub = await hubFor(t)
  const folder = scratch(t)
  const log = memoryLog()
  const store = await open(t, folder, { hub: clientOf(hub), log })
  t.match(await done(store.start('acme/absent')), { status: 'failed', reason: 'not_found' })
  hub.faults = { gated: true }
  t.match(await done(store.start(ID)), { status: 'failed', reason: 'gated', error: /SVC_HUB_TOKEN/ })
  t.same(names(join(folder, '.incoming')), [], 'nothing was fetched, nothing is left')
  hub.faults = { flipAt: 100, only: ({ path }) => path === 'model.onnx' }
  t.match(await done(store.start(ID)), { status: 'failed', reason: 'hash', error: /model\.onnx/ })
  t.same(names(folder), ['.incoming', '.trash'], 'nothing is published')
  t.equal(store.get(ID), undefined)
  t.ok(log.lines.some(([message, { reason }]) => message === 'a download failed' && reason === 'hash'))
  hub.faults = {}
  t.match(await done(store.start(ID)), { status: 'complete' }, 'it recovers')
})

t.test('a hub that is away does not take away what the store has', async (t) => {
  const hub = await hubFor(t)
  const store = await open(t, scratch(t), { hub: clientOf(hub) })
  await done(store.start(ID))
  hub.faults = { status: 503 }
  t.match(await done(store.start(ID)), { status: 'complete', totalBytes: TOTAL })
  t.match(await done(store.start(ID, { revision: 'v2' })), { status: 'failed', reason: 'unavailable' })
  t.ok(store.get(ID), 'the old copy is still offered')
})

t.test('without a hub', async (t) => {
  const folder = scratch(t)
  const store = await open(t, folder)
  t.throws(() => store.start(ID), { name: 'StoreError', reason: 'no_hub', message: /model_store\.hub/ })
  await importFolder(store, write(scratch(t), { 'model.onnx': 'x' }))
  t.match(await done(store.start(ID)), { status: 'complete' }, 'what is there is there')
})

t.test('what was imported is not replaced by a plain pull, but by one from the hub', async (t) => {
  const hub = await hubFor(t)
  const store = await open(t, scratch(t), { hub: clientOf(hub) })
  await importFolder(store, write(scratch(t), { 'model.onnx': 'mine' }))
  t.match(await done(store.start(ID)), { status: 'complete' })
  t.equal(hub.requests.length, 0)
  t.match(await done(store.start(ID, { source: 'hub' })), { status: 'complete', totalBytes: TOTAL })
  t.match(store.get(ID)!.source, /^hub:/)
})

t.test('removal while it is fetched leaves nothing', async (t) => {
  const hub = await hubFor(t)
  hub.faults = HELD
  const folder = scratch(t)
  const store = await open(t, folder, { hub: clientOf(hub) })
  const job = store.start(ID)
  await until(() => statusOf(job).downloadedBytes > MIB)
  t.ok(await store.remove(ID) >= MIB, 'what was fetched counts as given back')
  t.match(await done(job), { status: 'cancelled' })
  t.match([names(folder), names(join(folder, '.incoming'))], [['.incoming', '.trash'], []])
  t.equal(store.status(ID).status, 'not_found')
})

t.test('pulls, pauses and removals at once end in one whole copy or none', async (t) => {
  const hub = await hubFor(t)
  const folder = scratch(t)
  const store = await open(t, folder, { hub: clientOf(hub) })
  for (let round = 0; round < 12; round++) {
    const job = store.start(ID)
    const others: Promise<unknown>[] = [done(store.start(ID)), store.remove(ID), ended(store, ID)]
    if (round % 3 === 0) others.push(store.pause(ID).catch(() => 0))
    if (round % 2 === 0) others.push(done(store.start(ID)))
    if (round % 4 === 1) others.push(store.remove(ID).catch(() => 0))
    await Promise.all([done(job), ...others])
    const entry = store.get(ID)
    t.equal(existsSync(join(folder, 'acme--voice')), entry !== undefined)
    if (entry !== undefined) t.same(readFileSync(join(entry.directory, 'model.onnx')), WEIGHTS)
  }
  t.same(names(join(folder, '.trash')), [])
})

t.test('admission is told the exact bytes of the selection', async (t) => {
  const hub = await hubFor(t)
  const store = await open(t, scratch(t), {
    hub: clientOf(hub),
    freeSpace: new RoomWatch(async (bytes) => { t.equal(bytes, TOTAL) })
  })
  t.match(await done(store.start(ID)), { status: 'complete' })
})

t.test('a job file that is damaged is a partial without a job', async (t) => {
  const hub = await hubFor(t)
  const folder = scratch(t)
  const incoming = join(folder, '.incoming', 'acme--voice')
  write(incoming, { '.svc-job.json': '{"format":1,', 'model.onnx': WEIGHTS.subarray(0, MIB) })
  const store = await open(t, folder, { hub: clientOf(hub) })
  t.equal(store.status(ID).status, 'not_found')
  t.match(await done(store.start(ID)), { status: 'complete' })
  t.equal(hub.sent('model.onnx'), 2 * MIB, 'its bytes served all the same')
})

t.test('a job whose hub was configured away fails', async (t) => {
  const folder = scratch(t)
  const incoming = join(folder, '.incoming', 'acme--voice')
  const job = {
    format: 1, source: 'hub', revision: null, allow: null, variant: null, state: 'active', error: null,
    reason: null, startedAt: '2026-01-01T00:00:00.000Z', totalBytes: 3, selection: null, card: null
  }
  write(incoming, { '.svc-job.json': JSON.stringify(job), 'model.onnx': 'abc' })
  const store = await open(t, folder)
  t.match(await ended(store, ID), { status: 'failed', reason: 'no_hub' })
})

t.test('the real cards refuse what nothing here runs', async (t) => {
  const source = write(scratch(t), { 'config.json': '{"model_type":"llama"}', 'other.onnx': 'x' })
  const store = await open(t, scratch(t), { derive: deriveCard })
  const imported = importFolder(store, source)
  await t.rejects(imported, { name: 'StoreError', reason: 'unusable_model' })
  t.match(store.status(ID), { status: 'failed', error: /cannot be used: other\.onnx is/ })
})

t.test('a hub that asks for a long pause is waited for without a place in the queue', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'model.onnx': 'weights' } } } })
  t.teardown(async () => { await hub.close() })
  hub.faults = { status: 429, retryAfter: '600', only: ({ path }) => path === 'model.onnx' }
  const store = await open(t, scratch(t), { hub: clientOf(hub), freeSpace: new FreeSpace(0) })
  const job = store.start(ID)
  await until(() => hub.requests.some(({ path }) => path === 'model.onnx'))
  const source = write(scratch(t), { 'model.onnx': 'other' })
  await importFolder(store, source, 'acme/other')
  t.match(statusOf(job), { status: 'downloading' })
  hub.faults = {}
  t.match(await store.cancel(ID), { status: 'cancelled' })
})
