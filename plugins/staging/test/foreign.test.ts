import {
  chmodSync, linkSync, lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, rmSync, symlinkSync,
  utimesSync, writeFileSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { ModelsService } from '../service.js'
import { gguf, llama } from './cards-kit.js'
import { call, codes, eventsOf, pull, scratch, startNode, until, type Test } from './manager-kit.js'

const LLAMA = gguf(llama)

/** Everything under a folder by path: file contents and link targets. */
function bytesBelow (folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
  return Object.fromEntries(names.map((name) => {
    const stats = lstatSync(join(folder, name))
    if (stats.isSymbolicLink()) return [name, `-> ${readlinkSync(join(folder, name))}`]
    return [name, stats.isFile() ? readFileSync(join(folder, name), 'utf8') : 'folder']
  }))
}

/** Adds foreign files to a folder of staged copies; returns the paths. */
function strangers (root: string, outside: string): string[] {
  const files: Record<string, string> = {
    'models--org--big/blobs/0a': 'weights of another program', 'models--org--big/.locks/x': '',
    'their--model/model.onnx': 'theirs', 'their--model/.last_used': '', 'plain/file': 'x', 'a file': 'x',
    '.incoming/their--transfer/part': 'theirs', '.incoming/file': 'x', '.trash/theirs/file': 'x',
    'their--store/acme--voice/model.onnx': 'a store in the cache',
    'their--store/acme--voice/.svc-record.json': '{"format":1}'
  }
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text, { mode: 0o444 })
    utimesSync(join(root, path), 1, 1)
  }
  const links = { 'models--org--big/snapshot': 'blobs/0a', 'their--link': outside, '.trash/link': outside,
    '.incoming/their--link': outside }
  for (const [path, target] of Object.entries(links)) symlinkSync(target, join(root, path))
  chmodSync(join(root, 'plain'), 0o500)
  return [...Object.keys(files), ...Object.keys(links)]
}

t.test('nothing foreign is removed, whatever evicts, purges or sweeps', async (t) => {
  const [store, root, outside, source] = [scratch(t), scratch(t), scratch(t), scratch(t)]
  writeFileSync(join(outside, 'precious'), 'precious')
  writeFileSync(join(source, 'm.gguf'), LLAMA)
  writeFileSync(join(source, 'LICENSE'), 'do what you like')
  const foreign = strangers(root, outside)
  t.teardown(() => { chmodSync(join(root, 'plain'), 0o700) })
  const start = async (t: Test, clock = manualClock(Date.now())): ReturnType<typeof startNode> =>
    await startNode(t, {
      store, staging: root, start: { clock }, more: { staging: { staging_keep_recent_gb: 0 } }
    })
  const first = await start(t)
  const ids = ['acme/idle', 'acme/linked', 'acme/mixed', 'acme/last']
  for (const id of ids) {
    await pull(first, id, { source: pathToFileURL(source).href })
    await first.service(ModelsService).ensure(id)
  }
  await first.stop()
  // Foreign files inside svc's copies, and additional hard links to its files.
  writeFileSync(join(root, 'acme--mixed', 'notes'), 'mine')
  mkdirSync(join(root, 'acme--mixed', 'sub'))
  symlinkSync(outside, join(root, 'acme--mixed', 'sub', 'link'))
  linkSync(join(root, 'acme--linked', 'm.gguf'), join(outside, 'second name'))
  rmSync(join(root, 'acme--linked', 'LICENSE'))
  symlinkSync(join(outside, 'precious'), join(root, 'acme--linked', 'LICENSE'))
  foreign.push('acme--mixed/notes', 'acme--mixed/sub/link', 'acme--linked/LICENSE')
  for (const id of ids) utimesSync(join(root, id.replace('/', '--'), '.svc-record.json'), 1, 1)
  for (const name of readdirSync(root)) if (name.startsWith('acme--')) utimesSync(join(root, name), 1, 1)
  const before = { inside: bytesBelow(root), outside: bytesBelow(outside), store: bytesBelow(store) }

  const clock = manualClock(Date.now() + 3600_000)
  const rig = await start(t, clock)
  const models = rig.service(ModelsService)
  await models.opened
  const release = models.use('acme/last', 'instance one')
  await clock.advance(16_000)
  await until(() => models.locate('acme/mixed') === undefined && models.locate('acme/idle') === undefined)
  release()
  await until(() => models.locate('acme/last') === undefined)
  t.match((await call(rig, 'POST', '/store/purge-staging', {})).body, { nodes: [{ error: null }] })
  await rig.stop()
  await (await start(t)).stop()
  t.ok(eventsOf(rig, 'StagedModelEvicted').every(({ modelId }) => ids.includes(String(modelId))))

  const after = { inside: bytesBelow(root), outside: bytesBelow(outside), store: bytesBelow(store) }
  for (const path of foreign) t.equal(after.inside[path], before.inside[path], path)
  t.same(after.outside, before.outside, 'what links lead to')
  t.same(after.store, before.store)
  t.same(Object.keys(after.inside).filter((path) => path.includes('m.gguf')), [], 'what was svc\'s is gone')
})

t.test('what broken off transfers left is counted, purged, and expires after a day', async (t) => {
  const root = scratch(t)
  const leave = (name: string): string => {
    const folder = join(root, '.incoming', name)
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, '.svc-transfer'), '')
    writeFileSync(join(folder, 'part'), 'x'.repeat(1000))
    return folder
  }
  const clock = manualClock(Date.now())
  const rig = await startNode(t, { staging: root, start: { clock } })
  await rig.service(ModelsService).opened
  leave('acme--half')
  const other = leave('acme--other')
  const old = Date.now() / 1000 - 24 * 3600
  for (const name of ['part', '.svc-transfer', '']) utimesSync(join(other, name), old, old)
  const storage = async (): Promise<unknown> =>
    (await call(rig, 'GET', '/store/storage')).body['partialBytes']
  t.equal(await storage(), 2000)
  t.match((await call(rig, 'POST', '/store/purge-staging', { modelId: 'acme/half', dryRun: true })).body,
    { message: /^Would remove 1/, nodes: [{ removed: ['acme/half'], freedBytes: 1000, copies: [] }] })
  t.match((await call(rig, 'POST', '/store/purge-staging', { modelId: 'acme/half' })).body,
    { nodes: [{ removed: ['acme/half'], freedBytes: 1000, error: null }] })
  t.equal(await storage(), 1000)
  await clock.advance(3600_000)
  await until(async () => await storage() === 0)
})

t.test('folders of models that overlap are not used', async (t) => {
  const source = scratch(t)
  writeFileSync(join(source, 'm.gguf'), LLAMA)
  const store = join(scratch(t), 'models')
  const home = await startNode(t, { store })
  await pull(home, 'acme/voice', { source: pathToFileURL(source).href })
  await home.stop()
  const before = bytesBelow(join(store, 'acme--voice'))
  symlinkSync(store, `${store}-link`)
  const inner = join(store, 'staging')
  const cases: [string, string, string | undefined][] = [
    ['equal', store, undefined], ['by a link', `${store}-link`, undefined], ['inside', inner, undefined],
    ['around', dirname(store), undefined], ['the hub\'s folder', scratch(t), join(store, 'hub', 'deep')]
  ]
  for (const [name, staging, hub] of cases) {
    const more = { staging: { staging_keep_recent_gb: 0 } }
    const hubs = hub === undefined ? {} : { hub: { enabled: false, cache_path: hub } }
    const rig = await startNode(t, { store, staging, more: { ...more, ...hubs } })
    await rig.service(ModelsService).opened
    t.same(codes(rig), ['staging_unusable'], name)
    t.match(rig.conflicts(), [{ message: /overlaps with/ }], name)
    t.match((await call(rig, 'GET', '/store/registry')).body, { entries: [{ model_id: 'acme/voice' }] }, name)
    t.match((await call(rig, 'GET', '/store/storage')).body, { stagedModels: [] }, name)
    t.match((await call(rig, 'POST', '/store/purge-staging', {})).body,
      { nodes: [{ removed: [], error: null }] }, name)
    await rig.stop()
    t.same(bytesBelow(join(store, 'acme--voice')), before, name)
  }
})
