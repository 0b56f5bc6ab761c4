import t from 'tap'
import { find, readManifest, type FinderParts } from '../peers/finder.js'
import { rememberStore } from '../manager/start.js'
import { StoreAccess } from '../peers/store-access.js'
import { systemClock, type Clock, type MemberResponse } from '../../../kernel/index.js'
import { manifestDigest } from '../files/record.js'
import { manifestOf } from './files-kit.js'
import {
  contextOf, json, known, memorySection, Network, type MemorySection, type NetNode
} from './manager-kit.js'
import { card } from '../../runners/test/samples.js'
import type { ClusterCopy, LocalCopy, StoreEntryFact } from '../types.js'

const ID = 'acme/m'
const manifest = manifestOf(ID, { 'm.gguf': 'weights', 'a/b': 'x' })
const digest = manifestDigest(manifest)
const other = manifestOf(ID, { 'm.gguf': 'other weights' })
const CARD = card(ID)
const COMMIT = 'c'.repeat(40)
const HUB = 'https://hub.test'
const { signal } = new AbortController()

const fact: StoreEntryFact = {
  digest, revision: COMMIT, totalBytes: 8, source: `hub:${HUB}@${COMMIT}`,
  downloadedAt: '2026-01-01T00:00:00.000Z', bundled: false, card: CARD
}

/** A cluster of `me`, two store hosts and two other nodes. */
interface World {
  net: Network
  me: NetNode
  nodes: Record<'host' | 'host2' | 'peer' | 'peer2', NetNode>
  hosts: MemorySection<{ since: string }>
  models: MemorySection<StoreEntryFact>
  parts: FinderParts
  copies: ClusterCopy[]
}

function world (): World {
  const net = new Network()
  const me = net.node('me')
  const nodes = {
    host: net.node('host'), host2: net.node('host2'), peer: net.node('peer'), peer2: net.node('peer2')
  }
  const hosts = memorySection<{ since: string }>('n-me')
  const models = memorySection<StoreEntryFact>('n-me')
  const copies: ClusterCopy[] = []
  const ctx = contextOf(me, { sections: { storeHosts: hosts, storeModels: models } })
  const access = new StoreAccess(ctx, known)
  const parts = { ctx, access, store: null, catalogue: { copies: () => copies }, hub: null }
  return { net, me, nodes, hosts, models, parts, copies }
}

const said = (of = manifest, about = CARD): MemberResponse =>
  json(200, { ...of, digest: 'ignored', card: about })

function isStore (w: World, name: 'host' | 'host2', has = true): void {
  w.hosts.says(`n-${name}`, 'store', { since: '' })
  if (has) w.models.says(`n-${name}`, ID, fact)
}

/** Makes a node lost, so its entries are no longer listed. */
function lose (w: World, name: string): void {
  w.net.lose(name)
  w.hosts.lost(`n-${name}`)
  w.models.lost(`n-${name}`)
}

function hasCopy (w: World, name: 'peer' | 'peer2', of = manifest): void {
  w.nodes[name].serve = () => said(of)
  w.copies.push({
    modelId: ID, nodeId: `n-${name}`, nodeName: name, kind: 'staged', sizeBytes: 1,
    digest: manifestDigest(of), live: true
  })
}

t.test('the store of this node comes first', async (t) => {
  const w = world()
  const item = { modelId: ID } as LocalCopy
  const store = { offer: (id: string) => id === ID ? item : undefined }
  t.same(await find({ ...w.parts, store }, ID, undefined, signal), { from: 'offered', item })
})

t.test('a live store is asked for the manifest', async (t) => {
  const w = world()
  isStore(w, 'host')
  w.nodes.host.serve = () => said()
  t.same(await find(w.parts, ID, undefined, signal), { from: 'lan', manifest, digest, card: CARD })
  t.match(w.nodes.host.asked,
    [{ method: 'GET', path: '/store/models/acme/m/manifest?from=store', timeoutMs: 15_000 }])
})

t.test('nobody has a store: store_not_configured', async (t) => {
  const w = world()
  await t.rejects(find(w.parts, ID, undefined, signal),
    { name: 'SvcError', reason: 'store_not_configured', status: 503 })
})

t.test('a store that can be reached and has no such model: model_not_found, and the hub is not asked',
  async (t) => {
    const w = world()
    isStore(w, 'host', false)
    await t.rejects(find({ ...w.parts, hub: { url: HUB } }, ID, undefined, signal),
      { name: 'SvcError', reason: 'model_not_found', message: /store on host/ })
  })

t.test('a model that the store has just got, and that this node has not heard of, is found', async (t) => {
  const w = world()
  isStore(w, 'host', false)
  w.nodes.host.serve = () => said()
  t.same(await find(w.parts, ID, undefined, signal), { from: 'lan', manifest, digest, card: CARD })
  t.same(await find(w.parts, ID, digest, signal), { from: 'lan', manifest, digest, card: CARD })
  await t.rejects(find(w.parts, ID, manifestDigest(other), signal),
    { name: 'SvcError', reason: 'model_not_found' })
})

t.test('a store that breaks is followed by a node with the same content', async (t) => {
  const w = world()
  isStore(w, 'host')
  w.nodes.host.serve = () => { throw new Error('reset') }
  hasCopy(w, 'peer', other)
  hasCopy(w, 'peer2')
  t.match(await find(w.parts, ID, undefined, signal), { from: 'lan', digest })
  t.same(w.nodes.peer.asked, [], 'who says it has other content is not asked')
  t.match(w.nodes.peer2.asked, [{ path: '/store/models/acme/m/manifest?from=self' }])
})

t.test('a node that has other content than it said does not count', async (t) => {
  const w = world()
  isStore(w, 'host')
  w.nodes.host.serve = () => json(500, { error: { reason: 'internal', message: 'disk on fire' } })
  hasCopy(w, 'peer')
  w.nodes.peer.serve = () => said(other)
  await t.rejects(find(w.parts, ID, undefined, signal),
    { name: 'SvcError', reason: 'store_unreachable', message: /host: disk on fire/ })
})

t.test('the store is lost', async (t) => {
  await t.test('another node has the same content', async (t) => {
    const w = world()
    isStore(w, 'host')
    lose(w, 'host')
    hasCopy(w, 'peer')
    t.match(await find(w.parts, ID, undefined, signal), { from: 'lan', digest })
    t.same(w.nodes.host.asked, [], 'who is lost is not asked')
  })
  await t.test('nobody has it and there is no hub: store_unreachable', async (t) => {
    const w = world()
    isStore(w, 'host')
    lose(w, 'host')
    hasCopy(w, 'peer', other)
    await t.rejects(find(w.parts, ID, undefined, signal),
      { name: 'SvcError', reason: 'store_unreachable', status: 503, message: /host is lost/ })
  })
  await t.test('the hub is asked for the very commit the store had', async (t) => {
    const w = world()
    isStore(w, 'host')
    lose(w, 'host')
    t.match(await find({ ...w.parts, hub: { url: HUB } }, ID, undefined, signal),
      { from: 'hub', commit: COMMIT, fact: { digest }, why: { reason: 'store_unreachable' } })
  })
  await t.test('the hub is not asked when the store never spoke of the model', async (t) => {
    const w = world()
    isStore(w, 'host', false)
    lose(w, 'host')
    await t.rejects(find({ ...w.parts, hub: { url: HUB } }, ID, undefined, signal),
      { name: 'SvcError', reason: 'store_unreachable' })
  })
})

t.test('the content that is wanted counts more than what the store has', async (t) => {
  const old = manifestDigest(other)
  await t.test('a store with other content is not asked, a node that has it is', async (t) => {
    const w = world()
    isStore(w, 'host')
    hasCopy(w, 'peer')
    hasCopy(w, 'peer2', other)
    t.match(await find(w.parts, ID, old, signal), { from: 'lan', digest: old })
    t.same(w.nodes.host.asked, [])
    w.copies.length = 0
    await t.rejects(find(w.parts, ID, old, signal), { name: 'SvcError', reason: 'model_not_found',
      message: /now has another version of acme\/m.*Stop the instance and place/ })
    lose(w, 'host')
    await t.rejects(find(w.parts, ID, old, signal), { name: 'SvcError', reason: 'store_unreachable' })
  })
  await t.test('a store that has been updated since it told is no answer', async (t) => {
    const w = world()
    isStore(w, 'host')
    w.nodes.host.serve = () => said(other)
    await t.rejects(find(w.parts, ID, digest, signal), { name: 'SvcError', reason: 'store_unreachable' })
    t.match(await find(w.parts, ID, undefined, signal), { digest: old }, 'nothing is wanted in particular')
  })
  await t.test('the store of this node has it, or another version', async (t) => {
    const w = world()
    w.hosts.put('store', { since: '' })
    const store = { offer: () => ({ modelId: ID, digest }) as LocalCopy }
    t.match(await find({ ...w.parts, store }, ID, digest, signal), { from: 'offered' })
    await t.rejects(find({ ...w.parts, store }, ID, old, signal),
      { name: 'SvcError', reason: 'model_not_found' })
  })
})

t.test('a name that did not come from this hub is never sent there', async (t) => {
  for (const source of ['file', 'node', 'package', `hub:${HUB}@main`, `hub:${HUB}@${COMMIT}y`,
    `hub:https://other.test@${COMMIT}`]) {
    const w = world()
    isStore(w, 'host', false)
    w.models.says('n-host', ID, { ...fact, source })
    w.nodes.host.serve = () => { throw new Error('reset') }
    await t.rejects(find({ ...w.parts, hub: { url: HUB } }, ID, undefined, signal),
      { name: 'SvcError', reason: 'store_unreachable' }, source)
  }
})

t.test('what a node says is checked', (t) => {
  const good = { ...manifest, card: CARD, digest }
  t.same(readManifest(good, ID), { manifest, digest, card: CARD })
  const bad: [string, unknown][] = [
    ['nothing', null], ['a text', 'x'], ['a list', []], ['an empty object', {}],
    ['no card', { ...manifest }],
    ['another model', { ...manifestOf('acme/other', { a: 'x' }), card: CARD }],
    ['a card of another model', { ...manifest, card: card('acme/other') }],
    ['a broken card', { ...manifest, card: { ...CARD, tasks: 7 } }],
    ['a path out of the folder', { ...manifest, files: [{ ...manifest.files[0], path: '../x' }],
      card: CARD }],
    ['a file of svc itself', { ...manifest, card: { ...CARD,
      files: [{ path: '.SVC-record.json', role: 'other', bytes: 1 }] } }],
    ['a wrong sum', { ...manifest, totalBytes: 1, card: CARD }]
  ]
  for (const [what, body] of bad) t.throws(() => readManifest(body, ID), Error, what)
  t.end()
})

t.test('StoreAccess: of several stores this node, else the first live one by install id', (t) => {
  const w = world()
  isStore(w, 'host2')
  isStore(w, 'host')
  const name = (): string | undefined => w.parts.access.known()?.name
  t.equal(name(), 'host')
  w.hosts.put('store', { since: '' })
  t.equal(name(), 'me')
  t.equal(w.parts.access.all().length, 3)
  w.hosts.remove('store')
  w.net.lose('host')
  t.equal(name(), 'host2', 'who is lost comes last')
  t.equal(w.parts.access.host().name, 'host2')
  w.net.lose('host2')
  t.throws(() => w.parts.access.host(),
    { name: 'SvcError', reason: 'store_unreachable', details: { node: 'n-host' } })
  t.end()
})

t.test('StoreAccess: a store host that was lost is still one', (t) => {
  const w = world()
  isStore(w, 'host')
  lose(w, 'host')
  t.equal(w.parts.access.known()?.name, 'host')
  t.throws(() => w.parts.access.host(), { name: 'SvcError', reason: 'store_unreachable' },
    'it is there, only out of reach')
  t.match(w.parts.access.entry(ID), { digest })
  t.end()
})

t.test('StoreAccess: a node that has just started waits to be told where the store is', async (t) => {
  const w = world()
  let looks = 0
  const learning = (): boolean => {
    if (++looks === 3) isStore(w, 'host')
    return true
  }
  const clock: Clock = {
    ...systemClock,
    after (_ms, fn) {
      const timer = setTimeout(fn)
      return () => { clearTimeout(timer) }
    }
  }
  const sections = { storeHosts: w.hosts, storeModels: w.models }
  const access = new StoreAccess(contextOf(w.me, { clock, sections }), learning)
  await access.learned(signal)
  t.equal(access.host().name, 'host')
  const alone = world()
  const never = new StoreAccess(contextOf(alone.me, { clock }), () => true)
  await never.learned(signal)
  t.throws(() => never.host(), { name: 'SvcError', reason: 'store_unreachable' }, 'but not for ever')
})

t.test('a second store host is told of', (t) => {
  const w = world()
  w.hosts.put('store', { since: '' })
  const said: unknown[] = []
  const ctx = {
    node: { installId: 'i-me' }, log: {}, clock: systemClock, effect: () => {},
    sections: { stores: { get: () => ({}), observe: () => {} } },
    raise: (code: string, what: string) => { said.push([code, what]) },
    clear: (code: string) => { said.push(code) }
  }
  let again = (): void => {}
  const session = { masterNodeId: null, onChange: (fn: () => void) => { again = fn } }
  const manager = {
    access: w.parts.access, ctx, storePath: '/store', making: null
  }
  rememberStore(manager as never, session as never)
  again()
  isStore(w, 'host')
  again()
  t.same(said, ['second_store', ['second_store', 'host']])
  t.end()
})
