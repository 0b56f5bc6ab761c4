import {
  chmodSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, unlinkSync,
  writeFileSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { derive, gguf, llama } from './cards-kit.js'
import { sha256 } from './files-kit.js'
import { hubCacheOf } from '../manager/start.js'
import { startHub, type FakeHub } from './hub-kit.js'
import { call, reasonOf, scratch, startNode } from './manager-kit.js'
import { clientOf, done, open } from './store-kit.js'
import { gitBlobSha1 } from './hub-kit-answers.js'
import type { Store } from '../store/store.js'

const WEIGHTS = gguf(llama)
const ID = 'acme/chat'
const LARGER = Buffer.concat([WEIGHTS, WEIGHTS])
const FILES = { 'config.json': '{"a":1}', 'm-Q4_K_M.gguf': WEIGHTS, 'm-Q8_0.gguf': LARGER }

/** Creates a hub cache with one commit, in the layout of the hub's own tools. */
function cacheOf (
  root: string, files: Record<string, Buffer | string>, commit = 'c'.repeat(40)
): string {
  const model = join(root, 'models--acme--chat')
  for (const [path, content] of Object.entries(files)) {
    const bytes = Buffer.from(content)
    const blob = path.endsWith('.gguf') ? sha256(bytes) : gitBlobSha1(bytes)
    const entry = join(model, 'snapshots', commit, path)
    for (const folder of [join(model, 'blobs'), join(model, 'refs'), dirname(entry)]) {
      mkdirSync(folder, { recursive: true })
    }
    writeFileSync(join(model, 'blobs', blob), bytes)
    symlinkSync(`${'../'.repeat(path.split('/').length + 1)}blobs/${blob}`, entry)
  }
  writeFileSync(join(model, 'refs', 'main'), commit)
  return root
}

async function storeWith (
  t: Parameters<typeof open>[0], hubCache: string, hub?: FakeHub
): Promise<{ store: Store, folder: string }> {
  const folder = scratch(t)
  const store = await open(t, folder, {
    hubCache, derive, ...hub === undefined ? {} : { hub: clientOf(hub) }
  })
  return { store, folder }
}

async function hubOf (t: Parameters<typeof scratch>[0]): Promise<FakeHub> {
  const hub = await startHub({ models: { [ID]: { files: FILES } } })
  t.teardown(async () => { await hub.close() })
  return hub
}

/** Mode, size and inode of each file under a folder. */
function lookAt (root: string): unknown[] {
  return readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .map((entry) => {
      const { mode, size, mtimeMs } = statSync(join(entry.parentPath, entry.name))
      return [entry.name, mode, size, mtimeMs]
    })
}

t.test('a pull takes from the hub\'s cache what has the right hash, and changes nothing there', async (t) => {
  const hub = await hubOf(t)
  const cache = cacheOf(scratch(t), FILES)
  const before = lookAt(cache)
  const { store } = await storeWith(t, cache, hub)
  t.match(await done(store.start(ID, {}, true)), { status: 'complete', error: null })
  t.equal(hub.sent(), 0, 'not a byte from the hub')
  const entry = store.get(ID)!
  t.match(entry.source, /^hub:/, 'the hub named its files')
  t.ok(readFileSync(join(entry.directory, 'm-Q4_K_M.gguf')).equals(WEIGHTS))
  t.same(lookAt(cache), before)
  await store.remove(ID)
  t.same(lookAt(cache), before, 'neither does removing the model')
  const other = await storeWith(t, cache, hub)
  t.match(await done(other.store.start(ID)), { status: 'complete' })
  t.equal(hub.sent(), WEIGHTS.length + 7, 'not for who is not the operator')
})

t.test('what is wrong in the cache comes from the hub', async (t) => {
  const hub = await hubOf(t)
  const cache = cacheOf(scratch(t), FILES)
  const blob = join(cache, 'models--acme--chat', 'blobs', sha256(WEIGHTS))
  const wrong = Buffer.from(WEIGHTS)
  wrong[wrong.length - 1]! ^= 1
  writeFileSync(blob, wrong)
  const { store, folder } = await storeWith(t, cache, hub)
  t.match(await done(store.start(ID, {}, true)), { status: 'complete' })
  t.equal(hub.sent('m-Q4_K_M.gguf'), WEIGHTS.length)
  t.ok(readFileSync(blob).equals(wrong), 'and nothing is mended there')
  t.notMatch(readdirSync(folder, { recursive: true }).join(' '), /svc-near/)
  // A symbolic link is not accepted as a blob, even if its target has the right bytes.
  unlinkSync(blob)
  const outside = join(scratch(t), 'w')
  writeFileSync(outside, WEIGHTS)
  symlinkSync(outside, blob)
  hub.reset()
  const other = await storeWith(t, cache, hub)
  t.match(await done(other.store.start(ID, {}, true)), { status: 'complete' })
  t.equal(hub.sent('m-Q4_K_M.gguf'), WEIGHTS.length)
})

t.test('what cannot be linked is copied', async (t) => {
  const hub = await hubOf(t)
  // The cache is on another disk, so neither clone nor link works.
  const cache = cacheOf(`/dev/shm/svc-near-${process.pid}`, FILES)
  t.teardown(() => { rmSync(cache, { recursive: true, force: true }) })
  const { store, folder } = await storeWith(t, cache, hub)
  if (statSync(cache).dev === statSync(folder).dev) t.comment('one disk: linked')
  t.match(await done(store.start(ID, {}, true)), { status: 'complete' })
  t.equal(hub.sent(), 0)
})

t.test('a hard link is not made writable, nor read-only, for its other owner', async (t) => {
  const cache = cacheOf(scratch(t), FILES)
  const blob = join(cache, 'models--acme--chat', 'blobs', sha256(WEIGHTS))
  chmodSync(blob, 0o644)
  const { store } = await storeWith(t, cache, await hubOf(t))
  t.match(await done(store.start(ID, {}, true)), { status: 'complete' })
  const { nlink, mode } = statSync(blob)
  t.equal(mode & 0o777, 0o644)
  t.ok(nlink >= 1)
  const again = store.get(ID)!.directory
  linkSync(join(again, 'm-Q4_K_M.gguf'), join(dirname(again), 'x'))
  t.match(await done(store.start(ID, { variant: 'Q8_0' }, true)), { status: 'complete' })
  t.equal(statSync(blob).mode & 0o777, 0o644)
  t.same(readFileSync(blob), WEIGHTS)
})

t.test('where the hub\'s own programs keep their cache', (t) => {
  t.same(hubCacheOf({ HOME: '/h' }), '/h/.cache/huggingface/hub')
  t.same(hubCacheOf({ HOME: '/h', HF_HOME: '/f' }), '/f/hub')
  t.same(hubCacheOf({ HF_HUB_CACHE: '/c' }), '/c')
  t.equal(hubCacheOf({}), null)
  t.end()
})

t.test('only the operator may have other programs\' folders read', async (t) => {
  const rig = await startNode(t, { staging: scratch(t), store: scratch(t),
    start: { allow: ['read', 'cluster:write'] } })
  const asked = await call(rig, 'POST', `/store/models/${ID}/download`, { source: 'file:///models' })
  t.equal(reasonOf(asked), 'missing_grant')
})
