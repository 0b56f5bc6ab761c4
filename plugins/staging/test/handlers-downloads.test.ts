import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import { download, pause } from '../handlers/downloads.js'
import { add } from '../handlers/models.js'
import { ModelsService } from '../service.js'
import { StoreAccess } from '../peers/store-access.js'
import { gguf, llama } from './cards-kit.js'
import { startHub, type FakeHub, type HubFaults } from './hub-kit.js'
import {
  call, codes, contextOf, eventsOf, fakeRequest, json, known, memorySection, Network, pull, scratch,
  startNode, until, type NetNode, type Test
} from './manager-kit.js'
import { card } from '../../runners/test/samples.js'
import type { ModelContent } from '../types.js'
import type { ModelManager } from '../manager/manager.js'

const ID = 'acme/llama'
const URL_OF = `/store/models/${ID}/download`
const LLAMA = gguf(llama)

async function hubOf (t: Test, faults: HubFaults = {}): Promise<FakeHub> {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': LLAMA } } }, faults })
  t.teardown(async () => { await hub.close() })
  return hub
}

function source (t: Test): string {
  const folder = scratch(t)
  writeFileSync(join(folder, 'm.gguf'), LLAMA)
  return folder
}

t.test('pause, go on, cancel; other options meanwhile are download_running', async (t) => {
  const hub = await hubOf(t, { stallAfter: 100 })
  const rig = await startNode(t, { store: scratch(t), hub })
  t.match(await call(rig, 'GET', `${URL_OF}/status`),
    { status: 200, body: { modelId: ID, status: 'not_found', progress: 0 } })
  t.match(await call(rig, 'POST', URL_OF, { revision: 'main' }),
    { status: 200, body: { modelId: ID, source: 'hub' } })
  await until(() => hub.fetches('m.gguf').length > 0)
  t.match(await call(rig, 'POST', URL_OF, { revision: 'main' }), { status: 200 }, 'the same again joins it')
  t.match(await call(rig, 'POST', URL_OF, { variant: 'q4' }),
    { status: 409, body: { error: { reason: 'download_running' } } })
  t.match(await call(rig, 'POST', `${URL_OF}/pause`), { status: 200, body: { status: 'paused' } })
  t.match((await call(rig, 'GET', '/store/downloads')).body,
    { downloads: [{ modelId: ID, status: 'paused' }] })
  hub.faults = {}
  await call(rig, 'POST', URL_OF, { revision: 'main' })
  await until(async () => (await call(rig, 'GET', `${URL_OF}/status`)).body['status'] === 'complete')
  hub.setModel(ID, { files: { 'm.gguf': LLAMA, 'config.json': '{}' } })
  hub.faults = { stallAfter: 1 }
  await call(rig, 'POST', URL_OF, {})
  await until(async () => (await call(rig, 'GET', `${URL_OF}/status`)).body['status'] === 'downloading')
  t.match(await call(rig, 'DELETE', URL_OF), { status: 200, body: { status: 'cancelled' } })
  t.match(await call(rig, 'GET', `${URL_OF}/status`), { body: { status: 'cancelled' } })
})

t.test('a plain start goes on with what was paused, with the options it had', async (t) => {
  const hub = await hubOf(t, { stallAfter: 100 })
  const rig = await startNode(t, { store: scratch(t), hub })
  const partial = async (): Promise<unknown> =>
    (await call(rig, 'GET', '/store/storage')).body['partialBytes']
  // A pause may precede the first bytes; then the download is started again.
  await until(async () => {
    const before = hub.fetches('m.gguf').length
    await call(rig, 'POST', URL_OF, { revision: 'main' })
    await until(() => hub.fetches('m.gguf').length > before)
    await call(rig, 'POST', `${URL_OF}/pause`)
    return Number(await partial()) >= 100
  })
  hub.faults = {}
  hub.reset()
  t.match(await pull(rig, ID), { status: 'complete' })
  t.equal(await partial(), 0)
  t.equal(hub.requests.filter(({ kind }) => kind === 'api').length, 0, 'the commit was chosen before')
})

t.test('where a folder was is for the operator alone', async (t) => {
  const store = scratch(t)
  const href = pathToFileURL(source(t)).href
  const first = await startNode(t, { store })
  t.match(await pull(first, ID, { source: href }), { source: href })
  t.match((await call(first, 'GET', '/store/downloads')).body, { downloads: [{ source: href }] })
  await first.stop()
  const reader = await startNode(t, { store, start: { allow: ['read'] } })
  t.notMatch(JSON.stringify(await call(reader, 'GET', `${URL_OF}/status`)), href)
  t.match((await call(reader, 'GET', '/store/health')).body, { storePath: null })
  t.match((await call(reader, 'GET', '/store/registry')).body, { entries: [{ store_path: null }] })
})

t.test('there is nothing to pause or to cancel: download_not_found', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  const none = { status: 404, body: { error: { reason: 'download_not_found' } } }
  t.match(await call(rig, 'POST', `${URL_OF}/pause`), none)
  t.match(await call(rig, 'DELETE', URL_OF), none)
  await pull(rig, ID, { source: pathToFileURL(source(t)).href })
  t.match(await call(rig, 'POST', `${URL_OF}/pause`), none, 'a download that is over cannot be paused')
  t.match(await call(rig, 'DELETE', URL_OF), none)
})

t.test('without a hub: hub_disabled; with the model in the store a plain pull is complete', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  t.match(await call(rig, 'POST', URL_OF, {}), { status: 409, body: { error: { reason: 'hub_disabled' } } })
  await pull(rig, ID, { source: pathToFileURL(source(t)).href })
  t.match(await call(rig, 'POST', URL_OF, {}), { status: 200, body: { status: 'complete', progress: 1 } },
    'who asks for nothing in particular is content with what is there')
})

t.test('what the hub refuses is told with its reason', async (t) => {
  const hub = await hubOf(t)
  const rig = await startNode(t, { store: scratch(t), hub })
  t.match(await pull(rig, 'acme/none'), { status: 'failed', reason: 'not_found', error: String })
  hub.faults = { gated: true }
  t.match(await pull(rig, ID), { status: 'failed', reason: 'gated', error: /SVC_HUB_TOKEN/ })
  t.same(eventsOf(rig, 'ModelStored'), [])
})

t.test('a folder: only the operator, only a whole absolute URL, only a model', async (t) => {
  const folder = source(t)
  const rig = await startNode(t, { store: scratch(t) })
  const plain = await startNode(t, { store: scratch(t), start: { allow: ['read', 'cluster:write'] } })
  t.match(await call(plain, 'POST', URL_OF, { source: pathToFileURL(folder).href }),
    { status: 403, body: { error: { reason: 'missing_grant' } } })
  for (const bad of ['file:relative', 'file://host/share', 'ftp://x', 'file:///a%00b', 'FILE:///etc']) {
    t.match(await call(rig, 'POST', URL_OF, { source: bad }), { status: 400 }, bad)
  }
  t.match(await call(rig, 'POST', URL_OF, { source: 'file:relative' }),
    { body: { error: { reason: 'import_refused' } } })
  t.match(await call(rig, 'POST', URL_OF, { source: 'node:nobody' }),
    { status: 404, body: { error: { reason: 'node_not_found' } } })
  t.match(await pull(rig, ID, { source: 'file:///none/at/all' }), { status: 'failed', error: String })
  symlinkSync('/etc/passwd', join(folder, 'passwd'))
  t.match(await pull(rig, ID, { source: pathToFileURL(folder).href }), { status: 'failed', error: /link/ })
  rmSync(join(folder, 'passwd'))
  t.match(await pull(rig, ID, { source: pathToFileURL(folder).href }), { status: 'complete' })
})

t.test('bodies and ids that are not right', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  const bodies: unknown[] = [
    { source: '' }, { source: 7 }, { source: 'x'.repeat(5000) }, { revision: '-x' }, { revision: '../x y' },
    { allow: 'x' },
    { allow: [7] }, { variant: 'a/b' }, { other: 1 }, []
  ]
  for (const body of bodies) t.equal((await call(rig, 'POST', URL_OF, body)).status, 400,
    JSON.stringify(body).slice(0, 60))
  for (const id of ['one', 'a/b/c', 'a..b/c', 'CON/x', 'a--b/c', '.a/b', 'a/b.', `${'x'.repeat(97)}/y`]) {
    t.match(await call(rig, 'GET', `/store/models/${encodeURIComponent(id)}/download/status`),
      { status: 400, body: { error: { reason: 'invalid_request' } } }, id)
  }
})

t.test('a copy that is damaged while it is staged is download_failed, and told', async (t) => {
  const store = scratch(t)
  const rig = await startNode(t, { store })
  await pull(rig, ID, { source: pathToFileURL(source(t)).href })
  rmSync(join(store, 'acme--llama', 'm.gguf'), { force: true })
  await t.rejects(rig.service(ModelsService).ensure(ID),
    { name: 'SvcError', reason: 'download_failed', status: 502 })
  t.same(codes(rig), ['download_failed'])
  t.match(eventsOf(rig, 'DownloadFailed'), [{ modelId: ID, reason: String, errorMessage: String }])
})

interface Far { manager: ModelManager, host: NetNode, lent: Map<string, Exported> }
type Exported = ModelContent & { modelId: string, directory: string }

/** A node without a store in a cluster with a store host. */
function far (t: Test): Far {
  const net = new Network()
  const cluster = net.node('me')
  const host = net.node('host')
  const storeHosts = memorySection<{ since: string }>('n-me')
  storeHosts.says('n-host', 'store', { since: '' })
  const access = new StoreAccess(contextOf(cluster, { sections: { storeHosts } }), known)
  const lent = new Map<string, Exported>()
  const stops: (() => void)[] = []
  t.teardown(() => { for (const stop of stops) stop() })
  const manager = {
    cluster, access, store: null,
    clock: { ...systemClock, after: (ms: number, fn: () => void) => {
      const stop = systemClock.after(ms, fn)
      stops.push(stop)
      return stop
    } },
    catalogue: { cards: () => new Map() }, virtual: () => [], options: { importRoots: [] },
    derive: async (_folder: string, { modelId }: { modelId: string }) => card(modelId),
    exchange: { exportFolder: (copy: Exported) => { lent.set(copy.modelId, copy); return () => {} } },
    ctx: contextOf(cluster)
  } as unknown as ModelManager
  return { manager, host, lent }
}

const asking = (body: object, more = {}): never =>
  fakeRequest({ params: { model_id: ID }, body, ...more }) as never

t.test('a node that is no store host passes downloads on', async (t) => {
  const { manager, host } = far(t)
  host.serve = () => json(409, { error: { reason: 'download_running' } })
  t.match(await download(manager, asking({ revision: 'main', allow: ['*.onnx'] })), { status: 409 })
  t.match(host.asked, [{ method: 'POST', path: `/store/models/${ID}/download`,
    body: { revision: 'main', allow: ['*.onnx'] } }])
  await pause(manager, asking({}))
  t.match(host.asked.at(-1), { method: 'POST', path: `/store/models/${ID}/download/pause` })
  await t.rejects(download(manager, asking({}, { member: 'i-host' })),
    { name: 'SvcError', reason: 'store_unreachable' })
})

t.test('a folder of a node without a store is lent to the store host', async (t) => {
  const { manager, host, lent } = far(t)
  host.serve = () => json(200, { modelId: ID, status: 'pending' })
  const folder = source(t)
  t.match(await download(manager, asking({ source: pathToFileURL(folder).href, revision: 'v1' })),
    { status: 200, body: { status: 'pending' } })
  t.match(host.asked, [{ body: { source: 'node:i-me', revision: 'v1' } }])
  t.match(lent.get(ID), { directory: folder,
    manifest: { modelId: ID, files: [{ path: 'm.gguf', size: LLAMA.length }] } })
  const file = pathToFileURL(join(folder, 'm.gguf')).href
  t.match(await download(manager, asking({ source: file })), { status: 200 })
  t.match(lent.get(ID), { directory: folder, manifest: { files: [{ path: 'm.gguf' }] } })
  const empty = scratch(t)
  mkdirSync(join(empty, 'sub'))
  const refused = [pathToFileURL(empty).href, 'file:///none/at/all',
    pathToFileURL(join(folder, 'm.txt')).href, 'file://host/x']
  for (const one of refused) {
    await t.rejects(download(manager, asking({ source: one })),
      { name: 'SvcError', reason: 'import_refused', status: 400 }, one)
  }
  const caller = { id: 'x', mode: 'direct', authorities: new Set(['read', 'cluster:write']) }
  await t.rejects(download(manager, asking({ source: pathToFileURL(folder).href }, { caller })),
    { name: 'SvcError', reason: 'missing_grant' })
  t.equal(host.asked.length, 2)
})

t.test('who may have a folder read', async (t) => {
  const { manager, host } = far(t)
  host.serve = () => json(200, { modelId: ID, status: 'pending' })
  const root = scratch(t)
  mkdirSync(join(root, 'm'))
  writeFileSync(join(root, 'm', 'm.gguf'), LLAMA)
  mkdirSync(`${root}-beside`)
  t.teardown(() => { rmSync(`${root}-beside`, { recursive: true }) })
  writeFileSync(join(`${root}-beside`, 'm.gguf'), LLAMA)
  symlinkSync(source(t), join(root, 'link'))
  const all = new Set(['read', 'cluster:write', 'operator'])
  const app = { id: 'app_1', mode: 'direct', authorities: all }
  const device = { id: 'dev_1', mode: 'paired', authorities: all }
  const elsewhere = source(t)
  const rows: [path: string, more: object, roots: string[], reason: string | null][] = [
    [elsewhere, {}, [], null],
    [elsewhere, { caller: { ...app, id: 'operator' } }, [], null],
    [elsewhere, { caller: app }, [], 'missing_grant'],
    [elsewhere, { caller: app }, [root], 'missing_grant'],
    [elsewhere, { caller: device }, [], 'missing_grant'],
    [elsewhere, { caller: { ...app, id: 'operator', mode: 'relay' } }, [], 'missing_grant'],
    [elsewhere, { caller: { ...app, id: 'operator' }, member: 'i-host' }, [], 'missing_grant'],
    [elsewhere, { caller: { ...app, authorities: new Set(['cluster:write']) } }, ['/'], 'missing_grant'],
    [join(root, 'm'), { caller: app }, [root], null],
    [join(root, 'm'), { caller: device }, ['/nowhere', join(root, 'm')], null],
    [`${root}-beside`, { caller: app }, [root], 'missing_grant'],
    [join(root, '..'), { caller: app }, [root], 'missing_grant'],
    [join(root, 'link'), { caller: app }, [root], 'import_refused']
  ]
  for (const [path, more, importRoots, reason] of rows) {
    Object.assign(manager, { options: { importRoots } })
    const got = await download(manager, asking({ source: pathToFileURL(path).href }, more))
      .then(() => null, (error: unknown) => (error as { reason: string }).reason)
    t.equal(got, reason, JSON.stringify([path, more, importRoots]))
  }
})

t.test('only what is a model is lent, and only what `allow` names', async (t) => {
  const { manager, host, lent } = far(t)
  host.serve = () => json(200, { modelId: ID, status: 'pending' })
  const folder = source(t)
  for (const name of ['id_rsa', 'notes.txt', 'mmproj.gguf']) writeFileSync(join(folder, name), 'x')
  const body = { source: pathToFileURL(folder).href }
  const paths = (): string[] => lent.get(ID)!.manifest.files.map(({ path }) => path)
  await download(manager, asking(body))
  t.same(paths(), ['m.gguf', 'mmproj.gguf', 'notes.txt'])
  await download(manager, asking({ ...body, allow: ['m.*', 'id_*'] }))
  t.same(paths(), ['m.gguf'])
})

t.test('whatever a card says, only the files that were imported are served', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  const files = ['/etc/passwd', '../../node.key', 'm.gguf'].map((path) => ({ path, role: 'other', bytes: 1 }))
  await call(rig, 'POST', '/models/add', { card: { ...card(ID), files, totalBytes: 3 } })
  t.match(await pull(rig, ID, { source: pathToFileURL(source(t)).href }), { status: 'complete' })
  t.match((await call(rig, 'GET', `/store/models/${ID}/manifest`)).body, { files: [{ path: 'm.gguf' }] })
  for (const path of ['/etc/passwd', '%2Fetc%2Fpasswd', '..%2F..%2Fnode.key', 'etc/passwd',
    '.svc-record.json']) {
    const { statusCode } = await rig.inject({ url: `/store/models/${ID}/files/${path}` })
    t.ok(statusCode === 400 || statusCode === 404, `${path}: ${statusCode}`)
  }
})

t.test('adding by source over a node without a store answers as the store host does', async (t) => {
  const { manager, host } = far(t)
  host.serve = () => json(200, { modelId: ID, status: 'pending', progress: 0, error: null })
  const body = { source: ID }
  t.match(await add(manager, asking(body)),
    { model_id: ID, card: null, download: { modelId: ID, status: 'pending' } })
  host.serve = () => json(409, { error: { reason: 'hub_disabled', message: 'no hub' } })
  const refused = await add(manager, asking(body)).catch((error: unknown) => error) as { status?: number }
  t.equal(refused.status, 409, 'a refusal stays one')
})
