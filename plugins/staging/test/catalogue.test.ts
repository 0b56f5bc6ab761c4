import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { Catalogue, publishEntries, shortCard, storeFact } from '../manager/catalogue.js'
import { ModelRoot } from '../files/root.js'
import { LocalCopies, type Roots } from '../staged/local-copies.js'
import { Job } from '../transfer/job.js'
import { ProgressGossip } from '../peers/progress-gossip.js'
import { manifestOf, recordOf, sha256, write } from './files-kit.js'
import { contextOf, memorySection, Network, scratch, type Test } from './manager-kit.js'
import { importFolder, memoryLog, open } from './store-kit.js'
import { card } from '../../runners/test/samples.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { Bundle } from '../../runners/service.js'
import type { CopyEntry, LocalCopy, StoreEntryFact } from '../types.js'

const titled = (modelId: string, title: string): ModelCard => card(modelId, { title })

function copy (modelId: string, kind: LocalCopy['kind'], title: string = kind): LocalCopy {
  const manifest = manifestOf(modelId, { 'm.gguf': title })
  return { modelId, kind, directory: `/${kind}`, card: titled(modelId, title), manifest,
    digest: sha256(title), source: 'package', downloadedAt: '' }
}

const localOf = (...copies: LocalCopy[]): LocalCopies => ({
  all: () => copies, get: (id: string) => copies.find(({ card: { modelId } }) => modelId === id),
  bundled: new Map(copies.filter(({ kind }) => kind === 'bundled').map((one) => [one.modelId, one]))
}) as unknown as LocalCopies

const fact = (title: string): StoreEntryFact => ({
  digest: sha256(title), revision: 'r', totalBytes: 7, source: 'file', downloadedAt: '', bundled: false,
  card: titled('acme/m', title)
})

function catalogueOf (local: LocalCopies = localOf()) {
  const net = new Network()
  const cluster = net.node('me')
  net.node('host')
  net.node('peer')
  const sections = {
    modelCopies: memorySection<CopyEntry>('n-me'), storeModels: memorySection<StoreEntryFact>('n-me'),
    customCards: memorySection<ModelCard>('n-me')
  }
  const receiving: { nodeId: string, modelId: string, bytes: number }[] = []
  const catalogue = new Catalogue(contextOf(cluster, { sections }), local, { receiving: () => receiving })
  return { net, sections, receiving, catalogue }
}

t.test('of several cards with one id the later origin counts', (t) => {
  const id = 'acme/m'
  const { catalogue, sections } = catalogueOf()
  const origin = (): unknown => [catalogue.cards().get(id)?.origin, catalogue.card(id)?.title]
  t.same(origin(), [undefined, undefined])
  sections.storeModels.says('n-host', id, fact('in the store'))
  t.same(origin(), ['store', 'in the store'])
  sections.customCards.put(id, titled(id, 'added'))
  t.same(origin(), ['custom', 'added'])
  const staged = catalogueOf(localOf(copy(id, 'staged')))
  staged.sections.storeModels.says('n-host', id, fact('in the store'))
  t.match(staged.catalogue.cards().get(id), { origin: 'staged', card: { title: 'staged' } })
  t.match(catalogueOf(localOf(copy(id, 'bundled'))).catalogue.cards().get(id), { origin: 'bundled' })
  t.end()
})

t.test('where the copies are', (t) => {
  const { catalogue, sections, receiving, net } = catalogueOf()
  sections.storeModels.says('n-host', 'acme/m', fact('x'))
  const entry: CopyEntry = { kind: 'staged', digest: sha256('x'), sizeBytes: 5, ready: true }
  sections.modelCopies.says('n-peer', 'acme/m', entry)
  sections.modelCopies.says('n-peer', 'acme/other', { ...entry, kind: 'cache', ready: false })
  sections.modelCopies.says('n-unknown', 'acme/m', entry)
  receiving.push({ nodeId: 'n-me', modelId: 'acme/m', bytes: 3 },
    { nodeId: 'n-none', modelId: 'acme/m', bytes: 3 })
  const found = catalogue.copies('acme/m')
  t.same(found, [
    { modelId: 'acme/m', nodeId: 'n-host', nodeName: 'host', kind: 'store', sizeBytes: 7,
      digest: sha256('x'), live: true },
    { modelId: 'acme/m', nodeId: 'n-peer', nodeName: 'peer', kind: 'staged', sizeBytes: 5,
      digest: sha256('x'), live: true },
    { modelId: 'acme/m', nodeId: 'n-me', nodeName: 'me', kind: 'receiving', sizeBytes: 3, digest: '',
      live: true }
  ])
  t.equal(catalogue.copies().length, 4)
  t.same([...catalogue.ready()], ['acme/m'])
  net.lose('peer')
  t.same([...catalogue.ready()], [], 'a runner on a lost node serves nobody')
  t.match(catalogue.copies('acme/m')[1], { nodeName: 'peer', live: false })
  t.end()
})

t.test('tell makes the own entries what they are to be, and writes only what differs', (t) => {
  const section = memorySection<{ a: number }>('n-me')
  const written: string[] = []
  const watched = {
    ...section,
    put: (key: string, value: { a: number }) => { written.push(`put ${key}`); section.put(key, value) },
    remove: (key: string) => { written.push(`remove ${key}`); section.remove(key) }
  }
  section.says('n-peer', 'p', { a: 9 })
  publishEntries(watched, 'n-me', new Map([['x', { a: 1 }], ['y', { a: 2 }]]))
  publishEntries(watched, 'n-me', new Map([['x', { a: 1 }], ['y', { a: 3 }]]))
  publishEntries(watched, 'n-me', new Map([['y', { a: 3 }]]))
  t.same(written, ['put x', 'put y', 'put y', 'remove x'])
  t.same(section.get('p', 'n-peer'), { a: 9 }, 'what others say is theirs')
  t.same(shortCard(card('a/b')).files, [])
  const eyes = { path: 'mmproj-m.gguf', role: 'vision_weights', bytes: 1 }
  const files = [{ path: 'm.gguf', role: 'weights', bytes: 2 }, eyes]
  t.same(shortCard({ ...card('a/b'), files }).files, [eyes], 'by which a node knows what runs it')
  const support = { tools: 'x'.repeat(300), images: 'read', speed: 'any' }
  t.same(shortCard({ ...card('a/b'), support }).support, { tools: 'x'.repeat(200), images: 'read' })
  t.end()
})

t.test('what a store host offers: what ships and what was pulled; a pulled one counts', async (t) => {
  const clock = manualClock()
  const local = localOf(copy('svc/voice', 'bundled'), copy('acme/x', 'staged'))
  const store = await open(t, scratch(t), { local, clock })
  const source = scratch(t)
  write(source, { 'model.onnx': 'p' })
  await importFolder(store, source, 'acme/pulled')
  const since = new Date(clock.now()).toISOString()
  t.same(store.offers().map(({ modelId, kind, source, downloadedAt }) =>
    [modelId, kind, source, downloadedAt]), [
    ['svc/voice', 'bundled', 'package', ''], ['acme/pulled', 'store', 'file', since]
  ])
  await importFolder(store, source, 'svc/voice')
  t.match(store.offer('svc/voice'), { kind: 'store', source: 'file' })
  t.equal(store.offers().length, 2)
  t.equal(store.offer('acme/none'), undefined)
  const offer = store.offer('acme/pulled')!
  const [id, told] = storeFact({ ...offer, card: card('acme/pulled') })
  t.equal(id, 'acme/pulled')
  t.match(told, { revision: 'local', totalBytes: 1, source: 'file', downloadedAt: since, bundled: false,
    card: { files: [] } })
  t.equal(told.digest, offer.digest)
})

interface Locals { local: LocalCopies, log: ReturnType<typeof memoryLog>, changes: () => number,
  staging: ModelRoot }

async function locals (
  t: Test, bundle: Pick<Bundle, 'models'> = { models: () => [] }, more: Partial<Roots> = {}
): Promise<Locals> {
  const staging = new ModelRoot({ root: scratch(t), clock: systemClock })
  const log = memoryLog()
  let changes = 0
  await staging.prepare()
  const ctx = contextOf(new Network().node('me'), { log })
  const roots = { staged: staging, beside: unused(t), cache: unused(t), ...more }
  staging.onChange = () => { changes++ }
  const local = new LocalCopies(ctx, roots, bundle)
  return { local, log, staging, changes: () => changes }
}

const unused = (t: Test): ModelRoot =>
  Object.assign(new ModelRoot({ root: scratch(t), clock: systemClock }), { usable: false })

async function publish (root: ModelRoot, modelId: string,
  text: string): Promise<Awaited<ReturnType<ModelRoot['publish']>>> {
  write(root.incoming(modelId), { 'm.gguf': text })
  return await root.publish(modelId, { ...recordOf(modelId, { 'm.gguf': text }), card: card(modelId) })
}

function shipped (t: Test, modelId: string, files: ModelCard['files']): { card: ModelCard,
  directory: string } {
  const directory = scratch(t)
  writeFileSync(join(directory, 'm.gguf'), 'shipped')
  return { card: card(modelId, { files, totalBytes: 7 }), directory }
}

const right = [{ path: 'm.gguf', role: 'weights', bytes: 7, sha256: sha256('shipped') }]

t.test('local copies: what ships, then what is staged; folders nobody vouches for are none', async (t) => {
  const models = [shipped(t, 'svc/voice', right)]
  const w = await locals(t, { models: () => models })
  const earlier = new ModelRoot({ root: w.staging.root, clock: systemClock })
  await publish(earlier, 'acme/m', 'one')
  await publish(earlier, 'svc/voice', 'staged too')
  mkdirSync(join(w.staging.root, 'acme--stranger'))
  t.equal(w.local.get('acme/m'), undefined, 'nothing is known before it was looked at')
  await w.local.open()
  t.match(w.local.bundled.get('svc/voice'), { source: 'package', downloadedAt: /^20..-/ })
  t.match(w.local.get('svc/voice'), { kind: 'bundled', directory: models[0]!.directory })
  t.match(w.staging.copies.get('svc/voice'), { kind: 'staged' })
  t.match(w.local.get('acme/m'), { kind: 'staged', directory: join(w.staging.root, 'acme--m') })
  t.equal(w.local.get('acme/stranger'), undefined)
  t.same(w.local.all().map(({ card: { modelId } }) => modelId).sort(), ['acme/m', 'svc/voice'])
  t.same([...w.local.bundled.keys()], ['svc/voice'])
})

t.test('local copies come and go', async (t) => {
  const w = await locals(t)
  await w.local.open()
  await publish(w.staging, 'acme/m', 'one')
  t.same([w.local.all().map(({ kind }) => kind), w.changes()], [['staged'], 1])
  await w.staging.remove('acme/none')
  t.equal(w.changes(), 1, 'nothing changed')
  await w.staging.remove('acme/m')
  t.same([w.local.all(), w.changes()], [[], 2])
  await publish(w.staging, 'acme/m', 'one')
  await w.local.forgetGone('acme/m')
  t.equal(w.local.all().length, 1, 'its folder is there')
  rmSync(join(w.staging.root, 'acme--m'), { recursive: true })
  await w.local.forgetGone('acme/m')
  t.same([w.local.all(), w.changes()], [[], 4])
})

t.test('a model that ships and is not as its card says is left out; the others stay', async (t) => {
  const wrong: [string, ModelCard['files']][] = [
    ['svc/short', [{ ...right[0]!, bytes: 8 }]], ['svc/spoiled', [{ ...right[0]!, sha256: sha256('other') }]],
    ['svc/absent', [{ ...right[0]!, path: 'none' }]]
  ]
  for (const [modelId, files] of wrong) {
    const w = await locals(t, { models: () => [shipped(t, modelId, files), shipped(t, 'svc/voice', right)] })
    await w.local.open()
    t.equal(w.local.get(modelId), undefined, modelId)
    t.ok(w.log.lines.some(([line]) => /ships/.test(line)), 'it is logged')
    t.ok(w.local.get('svc/voice'), `${modelId} does not take the others with it`)
  }
})

t.test('transfers are told to the others, and kept from them', async (t) => {
  const clock = manualClock()
  const net = new Network()
  const [a, b] = [net.node('a'), net.node('b')]
  const jobs: Job[] = []
  const one = new ProgressGossip(contextOf(a, { clock }), () => jobs)
  const two = new ProgressGossip(contextOf(b, { clock }), () => [])
  const settle = async (ms: number): Promise<void> => {
    await clock.advance(ms)
    for (let i = 0; i < 5; i++) await new Promise((resolve) => { setImmediate(resolve) })
  }
  await settle(1000)
  t.same(two.view(), {}, 'nothing is nothing')
  const job = new Job('acme/m', null, { clock, onChange: () => {} })
  jobs.push(job)
  job.moved({ bytes: 5, totalBytes: 10, files: 0, totalFiles: 1 })
  await settle(1000)
  t.match(two.view(),
    { 'n-a': [{ DownloadOngoing: { modelId: 'acme/m', downloadProgress: { downloaded: 5 } } }] })
  t.same([...two.receiving()], [{ nodeId: 'n-a', modelId: 'acme/m', bytes: 5 }])
  t.same([...one.receiving()], [{ nodeId: 'n-a', modelId: 'acme/m', bytes: 5 }])
  job.complete(10)
  one.changed()
  await settle(1000)
  t.match(two.view(), { 'n-a': [{ DownloadCompleted: { total: 10 } }] })
  t.same([...two.receiving()], [])
  const late = new ProgressGossip(contextOf(net.node('c'), { clock }), () => [])
  await settle(11_000)
  t.match(late.view(), { 'n-a': [{ DownloadCompleted: {} }] }, 'who comes later hears of it too')
  net.lose('a')
  t.same(two.view(), {}, 'who is lost fetches nothing')
  for (const gossip of [one, two, late]) gossip.close()
})

const hostile: unknown[] = [
  null, 7, 'x', {}, [null], [7], [{}], [{ Other: { modelId: 'a', nodeId: 'b' } }],
  [{ DownloadPending: null }],
  [{ DownloadPending: { modelId: 'a', nodeId: 'b', total: 'many' } }],
  [{ DownloadPending: { modelId: 7, nodeId: 'b' } }], [{ DownloadPending: { modelId: 'a' } }],
  Array.from({ length: 257 }, () => ({ DownloadPending: { modelId: 'a', nodeId: 'b' } }))
]

t.test('what is no list of transfers is ignored', async (t) => {
  const net = new Network()
  const [a, b] = [net.node('a'), net.node('b')]
  const gossip = new ProgressGossip(contextOf(b, { clock: manualClock() }), () => [])
  const channel = a.channel<unknown>('staging.downloads', () => {})
  const settle = async (): Promise<void> => {
    for (let i = 0; i < 5; i++) await new Promise((resolve) => { setImmediate(resolve) })
  }
  for (const message of hostile) {
    channel.send('i-b', message)
    await settle()
    t.same(gossip.view(), {}, JSON.stringify(message).slice(0, 60))
  }
  const later = { modelId: 'a', nodeId: 'b', more: 1 }
  channel.send('i-b', [{ DownloadPaused: later }, { at: 'T', DownloadPending: later, DownloadFailed: later }])
  await settle()
  t.strictSame(gossip.view(), { 'n-a': [{ DownloadPending: later }] }, 'a newer version says more')
  const ongoing = { modelId: 'a/b', nodeId: 'n-a', downloadProgress: { downloaded: 'much' } }
  channel.send('i-b', [{ DownloadOngoing: ongoing }])
  await settle()
  for (const { bytes } of gossip.receiving()) t.type(bytes, 'number',
    'a size is a number, whatever a node says')
  gossip.close()
})
