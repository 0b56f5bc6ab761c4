import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { listRank } from '../cards/model-list.js'
import { stringify } from 'yaml'
import { ClusterService, definePlugin, SessionService, type NodeView } from '../../../kernel/index.js'
import { card as cardHandler } from '../handlers/models.js'
import { fake, manualClock } from '../../../kernel/testing/index.js'
import { ModelsService } from '../service.js'
import { StoreAccess } from '../peers/store-access.js'
import { gguf, llama } from './cards-kit.js'
import { sha256 } from './files-kit.js'
import { startHub } from './hub-kit.js'
import {
  call, contextOf, errorOf, eventsOf, fakeRequest, json, known, memorySection, Network, pull, scratch,
  startNode, type Test
} from './manager-kit.js'
import { card } from '../../runners/test/samples.js'
import type { ModelManager } from '../manager/manager.js'
import type { StoreEntryFact } from '../types.js'

const ID = 'acme/llama'
const LLAMA = gguf(llama)

function source (t: Test): string {
  const folder = scratch(t)
  writeFileSync(join(folder, 'm.gguf'), LLAMA)
  return pathToFileURL(folder).href
}

t.test('custom cards: add, see, replace, remove', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  const mine = card('acme/mine', { title: 'Mine' })
  t.match(await call(rig, 'GET', '/models/acme/mine/card'),
    { status: 404, body: { error: { reason: 'model_not_found' } } })
  t.match(await call(rig, 'POST', '/models/add', { card: mine }),
    { status: 200, body: { model_id: 'acme/mine', card: mine } })
  t.match(await call(rig, 'GET', '/models/acme/mine/card'),
    { body: { model_id: 'acme/mine', origin: 'custom', card: { title: 'Mine' }, copies: [] } })
  t.match((await call(rig, 'GET', '/v1/models')).body,
    { data: [{ id: 'acme/mine', installed: false, ready: false, created: Number }] })
  t.match(await call(rig, 'GET', '/v1/models/acme/mine'),
    { status: 200, body: { id: 'acme/mine', object: 'model' } })
  t.match(await call(rig, 'GET', '/v1/models/acme/none'), { status: 404,
    body: { error: { type: 'invalid_request_error', code: 'model_not_found' } } })
  const theirs = async (url: string): Promise<object> =>
    (await rig.inject({ url, headers: { 'anthropic-version': '2023-06-01' } })).json()
  const shown = { type: 'model', id: 'acme/mine', display_name: 'Mine', created_at: /^20\d\d-/,
    capabilities: null }
  t.match(await theirs('/v1/models/acme/mine?beta=true'), shown)
  t.match(await theirs('/v1/models?beta=true'), { data: [shown] })
  t.match(await theirs('/v1/models?limit=1'),
    { data: [shown], has_more: false, first_id: 'acme/mine', last_id: 'acme/mine' })
  t.match(await theirs('/v1/models?after_id=acme/mine'), { data: [], has_more: false, first_id: null })
  t.match(await theirs('/v1/models/acme/none'), { type: 'error', error: { type: 'not_found_error' } })
  t.match(await call(rig, 'GET', '/v1/models?limit=1'), { status: 400 })
  t.match(await call(rig, 'POST', '/models/add', { card: { ...mine, title: 'Again' } }), { status: 200 })
  t.match((await call(rig, 'GET', '/v1/models')).body, { data: [{ name: 'Again' }] }, 'the list at once')
  t.match(await call(rig, 'GET', '/models/acme%2Fmine/card'), { body: { card: { title: 'Again' } } })
  t.match(await call(rig, 'DELETE', '/models/custom/acme/mine'),
    { status: 200, body: { model_id: 'acme/mine', deleted: true } })
  t.match(await call(rig, 'DELETE', '/models/custom/acme/mine'),
    { status: 404, body: { error: { reason: 'model_not_found' } } })
  for (const path of ['/models', '/v1/models']) {
    t.same((await call(rig, 'GET', path)).body, { object: 'list', data: [] })
  }
})

t.test('cards that are none', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  const good = card('acme/mine')
  const many = Array.from({ length: 3000 }, (_, i) => ({ path: `file-${i}`, role: 'weights', bytes: 1 }))
  const bad: [string, unknown][] = [
    ['nothing', {}], ['both', { card: good, source: 'a/b' }], ['a text', { card: 'x' }],
    ['empty', { card: {} }],
    ['a name of what ships', { card: card('svc/mine') }], ['the same by source', { source: 'svc/mine' }],
    ['a wrong field', { card: { ...good, tasks: 'tts' } }],
    ['another field', { card: { ...good, extra: 1 } }],
    ['a file of svc itself',
      { card: { ...good, files: [{ path: '.svc-record.json', role: 'x', bytes: 1 }] } }],
    ['no model id', { card: { ...good, modelId: 'x' } }],
    ['a device', { card: { ...good, modelId: 'CON/x' } }],
    ['two dots', { card: { ...good, modelId: 'a..b/x' } }], ['too large', { card: { ...good, files: many } }],
    ['a bad source', { source: '../x' }]
  ]
  for (const [what, body] of bad) {
    t.match(await call(rig, 'POST', '/models/add', body),
      { status: 400, body: { error: { reason: 'invalid_request' } } }, what)
  }
  t.same((await call(rig, 'GET', '/models')).body['data'], [])
})

t.test('a node that has only just started cannot know yet whether there is a store', async (t) => {
  const node = (name: string): NodeView => ({
    nodeId: `id-${name}`, installId: `i-${name}`, name, self: name === 'one', live: true, master: false,
    apiUrl: null
  })
  const clock = manualClock()
  let changed = (): void => {}
  const session = {
    sessionId: '', masterNodeId: null as string | null, isMaster: false,
    onChange (fn: () => void) {
      const before = changed
      changed = () => { before(); fn() }
      return () => {}
    }
  }
  const nodes = [node('one'), node('two')]
  const rig = await startNode(t, { staging: scratch(t), start: { clock, fakes: [
    fake(ClusterService, {
      nodes: () => nodes, onPeers: () => () => {}, resolve: () => nodes[0],
      channel: () => ({ send: () => false, broadcast: () => 0 }) as never
    }),
    fake(SessionService, session)
  ] } })
  const stage = async (): Promise<unknown> => await call(rig, 'POST', '/store/models/acme/x/stage', {})
  const unknown = {
    status: 503, headers: { 'retry-after': '1' },
    body: { error: { reason: 'store_unreachable', retryable: true, message: /not know the store host yet/ } }
  }
  t.match(await stage(), unknown)
  Object.assign(session, { sessionId: 'S', masterNodeId: 'id-two' })
  changed()
  t.match(await stage(), unknown, 'what the master knows may be on its way')
  await clock.advance(3000)
  t.match(await stage(),
    { status: 503, body: { error: { reason: 'store_not_configured', retryable: false } } })
})

t.test('a name that a real model has is card_exists; what is used cannot go: model_in_use', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  const models = rig.service(ModelsService)
  await call(rig, 'POST', '/models/add', { card: card('acme/mine') })
  const release = models.use('acme/mine', 'instance one')
  t.match(await call(rig, 'DELETE', '/models/custom/acme/mine'),
    { status: 409, body: { error: { reason: 'model_in_use' } } })
  release()
  const waiting = { available: false, brokenLink: 'copy', remedy: '', wanted: true }
  const stop = models.judge(async () => () => waiting)
  t.match(await call(rig, 'DELETE', '/models/custom/acme/mine'),
    { status: 409, body: { error: { reason: 'model_in_use' } } }, 'an instance waits for it on another node')
  waiting.wanted = false
  t.equal((await call(rig, 'DELETE', '/models/custom/acme/mine')).status, 200)
  stop()
  await pull(rig, ID, { source: source(t) })
  t.match(await call(rig, 'POST', '/models/add', { card: card(ID) }),
    { status: 409, body: { error: { reason: 'card_exists' } } })
  await models.ensure(ID)
  t.match(await call(rig, 'POST', '/models/add', { card: card(ID) }),
    { status: 409, body: { error: { reason: 'card_exists' } } })
})

t.test('a card by hand counts more than what the files say', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  const mine = card(ID, { title: 'By hand', files: [{ path: 'm.gguf', role: 'special', bytes: 1 }] })
  await call(rig, 'POST', '/models/add', { card: mine })
  await pull(rig, ID, { source: source(t) })
  const { body } = await call(rig, 'GET', `/models/${ID}/card`)
  t.match(body, {
    origin: 'custom',
    card: { title: 'By hand', totalBytes: LLAMA.length,
      files: [{ path: 'm.gguf', role: 'special', bytes: LLAMA.length }] },
    copies: [{ kind: 'store' }]
  })
})

t.test('adding by source begins the download', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': LLAMA } } } })
  t.teardown(async () => { await hub.close() })
  const rig = await startNode(t, { store: scratch(t), hub })
  t.match(await call(rig, 'POST', '/models/add', { source: ID }),
    { status: 200, body: { model_id: ID, card: null, download: { modelId: ID } } })
  t.match(await pull(rig, ID), { status: 'complete' })
  t.match(await call(rig, 'POST', '/models/add', { source: ID }), { body: { card: { modelId: ID } } })
})

t.test('a model that ships is offered by a store host, and stays: model_bundled', async (t) => {
  const folder = scratch(t)
  writeFileSync(join(folder, 'voice.onnx'), 'weights')
  const about = card('svc/voice',
    { files: [{ path: 'voice.onnx', role: 'weights', bytes: 7, sha256: sha256('weights') }], totalBytes: 7 })
  writeFileSync(join(folder, 'card.yaml'), stringify(about))
  const voices = definePlugin({
    name: 'voices', version: '1.0.0', kernel: '^1.0.0', summary: 'A voice.',
    models: { 'svc/voice': { folder: pathToFileURL(`${folder}/`).href } }
  }, () => ({}))
  const rig = await startNode(t, { store: scratch(t), start: { plugins: [voices] } })
  t.match(await call(rig, 'GET', '/store/models/svc/voice/manifest'),
    { body: { modelId: 'svc/voice', totalBytes: 7 } })
  t.match((await call(rig, 'GET', '/store/registry')).body, { entries: [{ model_id: 'svc/voice' }] })
  t.equal((await call(rig, 'GET', '/store/health')).body['usedBytes'], 0, 'it lies not in the store')
  t.match(await call(rig, 'DELETE', '/store/models/svc/voice'),
    { status: 409, body: { error: { reason: 'model_bundled' } } })
  t.match(await rig.service(ModelsService).ensure('svc/voice'), { kind: 'bundled', directory: folder })
  t.match((await call(rig, 'POST', '/store/models/svc/voice/stage', { wait: true })).body,
    { nodes: [{ status: 'complete' }] })
  t.match((await rig.inject({ url: '/store/models/svc/voice/files/voice.onnx?from=self' })).body, 'weights')
})

t.test('deleting: what is not there, what is paused, copies that are idle', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': LLAMA } } }, faults: { stallAfter: 10 } })
  t.teardown(async () => { await hub.close() })
  const rig = await startNode(t, { store: scratch(t), hub })
  t.match(await call(rig, 'DELETE', `/store/models/${ID}`),
    { status: 404, body: { error: { reason: 'model_not_found' } } })
  await call(rig, 'POST', `/store/models/${ID}/download`, {})
  await call(rig, 'POST', `/store/models/${ID}/download/pause`)
  t.match(await call(rig, 'DELETE', `/store/models/${ID}`),
    { status: 200, body: { modelId: ID, deleted: true } })
  t.match((await call(rig, 'GET', `/store/models/${ID}/download/status`)).body, { status: 'not_found' })
  hub.faults = {}
  await pull(rig, ID)
  const models = rig.service(ModelsService)
  await models.ensure(ID)
  t.match((await call(rig, 'DELETE', `/store/models/${ID}`)).body,
    { nodes: [{ removed: [ID], error: null }] })
  t.equal(models.locate(ID), undefined)
  t.equal(eventsOf(rig, 'ModelDeleted').length, 2)
  t.match(eventsOf(rig, 'StagedModelEvicted'), [{ modelId: ID, trigger: 'store_delete' }], 'nobody purged it')
  t.same(eventsOf(rig, 'StagingPurged'), [])
})

t.test('the files of a card are asked of the store host', async (t) => {
  const net = new Network()
  const cluster = net.node('me')
  const host = net.node('host')
  const storeHosts = memorySection<{ since: string }>('n-me')
  const storeModels = memorySection<StoreEntryFact>('n-me')
  storeHosts.says('n-host', 'store', { since: '' })
  const short = card(ID, { files: [] })
  storeModels.says('n-host', ID, {
    digest: '', revision: '', totalBytes: 1, source: 'file', downloadedAt: '', bundled: false, card: short
  })
  const access = new StoreAccess(contextOf(cluster, { sections: { storeHosts, storeModels } }), known)
  const entry = { card: short, origin: 'store' }
  const manager = {
    cluster, clock: manualClock(), access, store: null, local: { get: () => undefined },
    ctx: { error: errorOf }, virtual: () => [],
    catalogue: { cards: () => new Map([[ID, entry]]), copies: () => [] }
  } as unknown as ModelManager
  const ask = async (more = {}): Promise<unknown> =>
    await cardHandler(manager, fakeRequest({ params: { model_id: ID }, ...more }))
  host.serve = () => json(200, { card: card(ID) })
  t.match(await ask(), { model_id: ID, origin: 'store', card: { files: [{ path: 'voice.onnx' }] } })
  t.match(host.asked, [{ path: `/models/${ID}/card`, timeoutMs: 5000 }])
  t.match(await ask({ member: 'i-host' }), { card: { files: [] } }, 'nodes do not ask each other in circles')
  t.equal(host.asked.length, 1)
  host.serve = () => { throw new Error('reset') }
  t.match(await ask(), { card: { files: [] } }, 'without it the card is short')
})

t.test('the list of models tells what can be asked, where somebody judges that', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  await call(rig, 'POST', '/models/add', { card: card('acme/mine') })
  const listed = async (): Promise<unknown> => (await call(rig, 'GET', '/v1/models')).body['data']
  const unjudged = [{ id: 'acme/mine', available: null, broken_link: null, remedy: null }]
  t.match(await listed(), unjudged)
  const models = rig.service(ModelsService)
  const stop = models.judge(async () => (modelId) =>
    ({ available: false, brokenLink: 'placement', remedy: `Place ${modelId}.`, wanted: false }))
  t.match(await listed(), [{ available: false, broken_link: 'placement', remedy: 'Place acme/mine.' }])
  stop()
  t.match(await listed(), unjudged)
  t.same(models.copies('acme/mine'), [])
})

t.test('the list begins with ready chat models, since clients preselect the first', async (t) => {
  const cards = { writer: ['chat'], encoder: ['embeddings'], base: ['completions'], voice: ['tts'] }
  const rig = await startNode(t, { store: scratch(t) })
  const order = async (): Promise<string[]> =>
    ((await call(rig, 'GET', '/v1/models')).body['data'] as { id: string }[]).map(({ id }) => id)
  for (const [name, tasks] of Object.entries(cards)) {
    await call(rig, 'POST', '/models/add', { card: card(`acme/${name}`, { tasks }) })
  }
  t.strictSame(await order(), ['acme/writer', 'acme/base', 'acme/encoder', 'acme/voice'])
  t.ok(listRank({ tasks: ['chat'] }, true) < listRank({ tasks: ['completions'] }, true))
  t.ok(listRank({ tasks: ['tts'] }, true) < listRank({ tasks: ['chat'] }, false), 'ready ones first')
  t.ok(listRank({ tasks: ['acme'] }, true) > listRank({ tasks: ['tts'] }, true), 'an unknown task last')
  t.ok(listRank({ tasks: ['acme'] }, false) > listRank({ tasks: ['tts'] }, false))
})

t.test('further names of models are listed as models are, by those who know them', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  await call(rig, 'POST', '/models/add', { card: card('acme/mine', { title: 'Mine' }) })
  const models = rig.service(ModelsService)
  const stop = models.names(() => [
    { id: 'brief', root: 'acme/mine' }, { id: 'lost', root: 'acme/none' },
    { id: 'acme/mine', root: 'acme/mine' }
  ])
  models.names(() => [{ id: 'also', root: 'acme/mine' }, { id: 'brief', root: 'x' }])
  const listed = async (): Promise<{ id: string, created: number }[]> =>
    (await call(rig, 'GET', '/v1/models')).body['data'] as []
  const [own, also, brief, ...more] = await listed()
  t.match([own, also, brief], [
    { id: 'acme/mine', root: 'acme/mine', name: 'Mine' }, { id: 'also', root: 'acme/mine', name: 'also' },
    { id: 'brief', root: 'acme/mine' }
  ])
  t.equal(also?.created, own?.created, 'as old as the model')
  t.ok(Math.abs((own?.created ?? 0) * 1000 - Date.now()) < 600_000, 'of no copy: since it is known here')
  t.same(more, [])
  t.match((await call(rig, 'GET', '/v1/models/brief')).body, { id: 'brief', root: 'acme/mine' })
  const headers = { 'anthropic-version': '2023-06-01' }
  t.match((await rig.inject({ url: '/v1/models/brief', headers })).json(),
    { type: 'model', id: 'brief', display_name: 'brief' })
  t.match((await call(rig, 'GET', '/models')).body, { data: [{ id: 'acme/mine' }] }, 'models alone')
  t.match(await call(rig, 'GET', '/v1/models/no such'), { status: 404 })
  stop()
  t.same((await listed()).map(({ id }) => id), ['acme/mine', 'also'])
})

t.test('a model that is placed is listed though no store tells of it', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  await call(rig, 'POST', '/models/add', { card: card('acme/mine', { title: 'Mine' }) })
  const listed = async (): Promise<unknown> => (await call(rig, 'GET', '/v1/models')).body['data']
  const stop = rig.service(ModelsService).placed(() => [card('acme/away'), card('acme/mine')])
  t.match(await listed(), [{ id: 'acme/away', installed: false }, { id: 'acme/mine', name: 'Mine' }])
  stop()
  t.match((await listed() as object[]).length, 1)
})

t.test('a model that a plugin answers itself is listed, and has no files', async (t) => {
  const rig = await startNode(t, { store: scratch(t) })
  const models = rig.service(ModelsService)
  const listed = async (): Promise<unknown> => (await call(rig, 'GET', '/v1/models')).body['data']
  const stop = models.virtual(() => [card('acme/oracle')])
  t.match(await listed(), [{ id: 'acme/oracle', virtual: true, installed: false, ready: false }])
  models.judge(async () => () => ({ available: true, brokenLink: null, remedy: null, wanted: true }))
  t.match(await listed(), [{ ready: true, available: true }])
  t.match((await call(rig, 'GET', '/models/acme/oracle/card')).body, { model_id: 'acme/oracle', copies: [] })
  t.same([models.isVirtual('acme/oracle'), models.isVirtual('acme/mine')], [true, false])
  t.same([models.card('acme/oracle'), models.cards()], [undefined, []], 'it is not in the catalogue')
  for (const [method, path] of [['POST', '/download'], ['DELETE', '']] as const) {
    t.match(await call(rig, method, `/store/models/acme/oracle${path}`, method === 'POST' ? {} : undefined),
      { status: 400, body: { error: { message: /is a virtual model of every node: it has no files/ } } })
  }
  stop()
  t.same(await listed(), [])
})
