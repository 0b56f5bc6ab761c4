import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { Exchange } from '../peers/exchange.js'
import { manifestDigest } from '../files/record.js'
import { chunksOf } from '../transfer/chunks.js'
import { file, manifest as manifestHandler } from '../handlers/files.js'
import { StoreAccess } from '../peers/store-access.js'
import { fetchModel } from '../transfer/fetch.js'
import { UploadLimiter } from '../peers/send-file.js'
import { CHUNK_BYTES, type LocalCopy, type ModelManifest, type StoreEntryFact } from '../types.js'
import {
  contextOf, errorOf, fakeRequest, json, known, memorySection, Network, scratch, until, type Network as Net,
  type NetNode, type Test
} from './manager-kit.js'
import { contentOf, liveClock, manifestOf, wrongFiles, type Content } from './transfer-kit.js'
import { card } from '../../runners/test/samples.js'
import type { MemberRequest, MemberResponse, SvcError } from '../../../kernel/index.js'
import type { ModelManager } from '../manager/manager.js'

const ID = 'acme/model'
const CARD = card(ID)
const CONTENT = contentOf({ 'big.bin': 2 * CHUNK_BYTES + 100, 'small.bin': 5000, 'empty.bin': 0 })
const MANIFEST = manifestOf(CONTENT)
const DIGEST = manifestDigest(MANIFEST)
const { signal } = new AbortController()

/** A node whose exchange answers file requests with the real handlers. */
interface Member {
  name: string
  cluster: NetNode
  exchange: Exchange
  folder: string
  /** The node's complete copies. */
  local: Map<string, LocalCopy>
  /** Models in the node's store. */
  offered: Map<string, LocalCopy>
  says: (nodeId: string, fact: StoreEntryFact) => void
}

function write (folder: string, content: Content): void {
  for (const [path, bytes] of content) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), bytes)
  }
}

function copyOf (folder: string, manifest: ModelManifest): LocalCopy {
  return { modelId: manifest.modelId, kind: 'staged', directory: folder, card: CARD, manifest,
    digest: manifestDigest(manifest), source: 'store', downloadedAt: '' }
}

async function serve (manager: ModelManager, { path, headers = {} }: MemberRequest): Promise<MemberResponse> {
  const url = new URL(path, 'http://node')
  const [, org, name, what,
    rest] = /^\/store\/models\/([^/]+)\/([^/]+)\/(manifest|files)\/?(.*)$/.exec(url.pathname)!
  const request = fakeRequest({
    params: { model_id: `${org!}/${name!}`, '*': rest }, query: Object.fromEntries(url.searchParams), headers,
    member: 'i-other'
  })
  try {
    if (what === 'manifest') return json(200, await manifestHandler(manager, request))
    await file(manager, request)
  } catch (error) {
    const { status = 500, reason = 'internal', message } = error as Partial<SvcError>
    return json(status, { error: { reason, message } })
  }
  const { head } = request
  return { status: head?.status ?? 200, headers: head?.headers ?? {}, body: Readable.from([request.sent]) }
}

function member (t: Test, net: Net, name: string): Member {
  const cluster = net.node(name)
  const hosts = memorySection<{ since: string }>(`n-${name}`)
  const models = memorySection<StoreEntryFact>(`n-${name}`)
  const sections = { storeHosts: hosts, storeModels: models }
  const ctx = contextOf(cluster, { clock: liveClock, sections })
  const access = new StoreAccess(ctx, known)
  const exchange = new Exchange(ctx, access)
  t.teardown(() => { exchange.close() })
  const local = new Map<string, LocalCopy>()
  const versions = (modelId: string): LocalCopy[] => local.has(modelId) ? [local.get(modelId)!] : []
  const offered = new Map<string, LocalCopy>()
  const manager = {
    local: { versions }, store: { offer: (id: string) => offered.get(id) },
    exchange, access, cluster, uplink: new UploadLimiter(null, liveClock),
    ctx: { error: errorOf }
  } as unknown as ModelManager
  cluster.serve = async (request) => await serve(manager, request)
  const says = (nodeId: string, fact: StoreEntryFact): void => {
    hosts.says(nodeId, 'store', { since: '' })
    models.says(nodeId, ID, fact)
  }
  return { name, cluster, exchange, folder: scratch(t), local, offered, says }
}

const fact = (digest = DIGEST): StoreEntryFact => ({
  digest, revision: 'main', totalBytes: MANIFEST.totalBytes, source: 'file', downloadedAt: '',
  bundled: false, card: CARD
})

const EXPORT = (from: Member) =>
  ({ modelId: ID, directory: from.folder, manifest: MANIFEST, digest: DIGEST, card: CARD })

/** Fetches the model into the node's folder, as the stager does. */
async function fetch ({ exchange, folder }: Member, manifest = MANIFEST): Promise<void> {
  const swarm = exchange.join({ modelId: ID, manifest, digest: manifestDigest(manifest),
    directory: folder, card: CARD })
  try {
    await fetchModel({
      manifest, folder, clock: liveClock, random: () => 0.5, signal, swarm: swarm.swarm,
      sources: swarm.sources, onSources: swarm.onSources, onChunk: swarm.onChunk, onTake: swarm.onTake,
      limits: { backoffMs: 2, backoffMaxMs: 10 }
    })
  } finally {
    swarm.leave()
  }
}

t.test('two nodes fetch from a store and from each other', async (t) => {
  const net = new Network()
  const [store, a, b] = [member(t, net, 'store'), member(t, net, 'a'), member(t, net, 'b')]
  write(store.folder, CONTENT)
  store.offered.set(ID, copyOf(store.folder, MANIFEST))
  for (const node of [a, b]) node.says('n-store', fact())
  await Promise.all([fetch(a), fetch(b)])
  t.same(await wrongFiles(a.folder, CONTENT), [])
  t.same(await wrongFiles(b.folder, CONTENT), [])
  t.equal(a.exchange.partial(ID), undefined, 'when it is over nothing is given in part any more')
})

t.test('without its store a node fetches from one that has a complete copy', async (t) => {
  const net = new Network()
  const [a, b] = [member(t, net, 'a'), member(t, net, 'b')]
  write(a.folder, CONTENT)
  const copy = copyOf(a.folder, MANIFEST)
  a.local.set(ID, copy)
  a.exchange.offer([copy])
  await fetch(b)
  t.same(await wrongFiles(b.folder, CONTENT), [])
})

t.test('a copy that is offered no more is not asked for; a node that comes up is', async (t) => {
  const net = new Network()
  const [a, b] = [member(t, net, 'a'), member(t, net, 'b')]
  write(a.folder, CONTENT)
  const copy = copyOf(a.folder, MANIFEST)
  a.local.set(ID, copy)
  a.exchange.offer([copy])
  const joined = b.exchange.join({ modelId: ID, manifest: MANIFEST, digest: DIGEST, directory: b.folder,
    card: CARD })
  await until(() => joined.sources().length === 1)
  t.match(joined.sources(), [{ id: 'i-a', kind: 'peer' }])
  a.exchange.offer([])
  await until(() => joined.sources().length === 0)
  a.exchange.offer([copy])
  a.exchange.offer([copy])
  await until(() => joined.sources().length === 1)
  let changes = 0
  const stop = joined.onSources(() => { changes++ })
  net.lose('a')
  t.same(joined.sources(), [], 'a node that is lost is no source')
  t.ok(changes > 0)
  const c = member(t, net, 'c')
  c.exchange.offer([copy])
  await until(() => joined.sources().length === 1)
  stop()
  changes = 0
  c.exchange.offer([])
  await until(() => joined.sources().length === 0)
  t.equal(changes, 0, 'nobody listens any more')
  joined.leave()
})

t.test('the store counts only while it is live and has this very content; once', async (t) => {
  const net = new Network()
  const [store, b] = [member(t, net, 'store'), member(t, net, 'b')]
  b.says('n-store', fact())
  store.exchange.offer([copyOf(store.folder, MANIFEST)])
  const joined = b.exchange.join({ modelId: ID, manifest: MANIFEST, digest: DIGEST, directory: b.folder,
    card: CARD })
  await until(() => joined.swarm.peers().length === 1)
  t.match(joined.sources(), [{ id: 'i-store', kind: 'store' }])
  t.equal(joined.sources().length, 1, 'not as a peer too')
  b.says('n-store', fact('0'.repeat(64)))
  t.match(joined.sources(), [{ id: 'i-store', kind: 'peer' }], 'its store has other content by now')
  net.lose('store')
  t.same(joined.sources(), [])
  joined.leave()
  b.says('n-b', fact())
  const own = b.exchange.join({ modelId: ID, manifest: MANIFEST, digest: DIGEST, directory: b.folder,
    card: CARD })
  t.same(own.sources(), [], 'this node is no source for itself')
  own.leave()
})

t.test('what has come is given; what has not is chunk_not_here', async (t) => {
  const net = new Network()
  const [a, b] = [member(t, net, 'a'), member(t, net, 'b')]
  write(b.folder, CONTENT)
  const joined = b.exchange.join({ modelId: ID, manifest: MANIFEST, digest: DIGEST, directory: b.folder,
    card: CARD })
  const table = chunksOf(MANIFEST)
  const { first } = table.of('big.bin')
  joined.onChunk(first + 1)
  const given = b.exchange.partial(ID)!
  const has: [number, number, boolean][] = [
    [0, CHUNK_BYTES, false], [CHUNK_BYTES, 2 * CHUNK_BYTES, true], [CHUNK_BYTES, CHUNK_BYTES + 1, true],
    [CHUNK_BYTES - 1, CHUNK_BYTES + 1, false], [2 * CHUNK_BYTES - 1, 2 * CHUNK_BYTES, true],
    [CHUNK_BYTES, 2 * CHUNK_BYTES + 1, false], [0, 2 * CHUNK_BYTES + 100, false]
  ]
  for (const [start, end, there] of has) t.equal(given.has('big.bin', { start, end }), there,
    `${start}-${end}`)
  t.ok(given.has('empty.bin', { start: 0, end: 0 }), 'nothing is needed for nothing')
  const ask = async (range: string): Promise<MemberResponse> => await a.cluster.request('i-b', {
    method: 'GET', path: `/store/models/${ID}/files/big.bin?from=self`, headers: { range },
    caller: { id: 'x', mode: 'direct', authorities: new Set() }
  })
  t.equal((await ask('bytes=0-99')).status, 409)
  t.equal((await ask(`bytes=${CHUNK_BYTES}-${CHUNK_BYTES + 99}`)).status, 206)
  joined.leave()
  t.equal((await ask(`bytes=${CHUNK_BYTES}-${CHUNK_BYTES + 99}`)).status, 404)
})

t.test('a node gives what comes of a new version while it has the old one', async (t) => {
  const net = new Network()
  const [a, b] = [member(t, net, 'a'), member(t, net, 'b')]
  const old = contentOf({ 'big.bin': 3000 }, 9)
  const root = scratch(t)
  write(root, old)
  a.local.set(ID, copyOf(root, { ...manifestOf(old), modelId: ID }))
  write(a.folder, CONTENT)
  const joined = a.exchange.join({ modelId: ID, manifest: MANIFEST, digest: DIGEST, directory: a.folder,
    card: CARD })
  for (let chunk = 0; chunk < chunksOf(MANIFEST).count; chunk++) joined.onChunk(chunk)
  await fetch(b)
  t.same(await wrongFiles(b.folder, CONTENT), [],
    'the new version came from a node that still has the old one')
  joined.leave()
})

t.test('an exported folder is sent, also by a node that has another copy of that model', async (t) => {
  const net = new Network()
  const [host, a] = [member(t, net, 'host'), member(t, net, 'a')]
  write(a.folder, CONTENT)
  const back = a.exchange.exportFolder(EXPORT(a))
  const bring = async (): Promise<string> => {
    const { manifest, digest, source } = await host.exchange.fromNode(ID, 'i-a', signal)
    await fetchModel({
      manifest, folder: host.folder, clock: liveClock, random: () => 0.5, signal, sources: () => [source]
    })
    return digest
  }
  t.equal(await bring(), DIGEST)
  t.same(await wrongFiles(host.folder, CONTENT), [])
  const old = contentOf({ 'big.bin': 3000 }, 9)
  const root = scratch(t)
  write(root, old)
  a.local.set(ID, copyOf(root, { ...manifestOf(old), modelId: ID }))
  t.equal(await bring(), DIGEST, 'what was exported, not what was staged before')
  back()
  t.equal(a.exchange.partial(ID), undefined)
  a.local.delete(ID)
  await t.rejects(bring(), { message: /no model acme\/model on this node/ })
})

t.test('an export that was replaced does not end with the old one', async (t) => {
  const a = member(t, new Network(), 'a')
  const first = a.exchange.exportFolder(EXPORT(a))
  const second = a.exchange.exportFolder(EXPORT(a))
  first()
  t.ok(a.exchange.partial(ID))
  second()
  t.equal(a.exchange.partial(ID), undefined)
})

t.test('fromNode: a node that lies is caught', async (t) => {
  const net = new Network()
  const [host, a] = [member(t, net, 'host'), member(t, net, 'a')]
  a.cluster.serve = () => json(200, { ...MANIFEST, modelId: 'acme/other', card: CARD })
  await t.rejects(host.exchange.fromNode(ID, 'i-a', signal), { message: /another model|acme\/other/ })
  await t.rejects(host.exchange.fromNode(ID, 'i-none', signal), { name: 'SvcError', reason: 'unreachable' })
})
