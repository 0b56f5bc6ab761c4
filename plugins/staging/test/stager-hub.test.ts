import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FreeSpace } from '../space/free-space.js'
import { errorOf } from './manager-kit.js'
import { startHub } from './hub-kit.js'
import { clientOf } from './store-kit.js'
import { CONTENT, factOf, ID, item, offered, world } from './stager-kit.js'
import type { Found } from '../peers/finder.js'

t.test('no store can be reached: the hub, into the cache', async (t) => {
  const files = { 'config.json': '{}', 'm.gguf': CONTENT.get('m.gguf')! }
  const hub = await startHub({ models: { [ID]: { files } } })
  t.teardown(async () => { await hub.close() })
  const client = clientOf(hub)
  const why = errorOf('store_unreachable', 'gone')
  const one = item(t, { content: new Map(Object.entries(files).map(([path, b]) => [path, Buffer.from(b)])) })
  const fact = factOf(one)
  const found = (): Found => ({ from: 'hub', commit: hub.commit(ID), fact, why })
  const w = await world(t, found, { hub: client })
  const job = w.stager.stage(ID)
  await job.ended
  t.same(w.failures, [])
  const copy = w.cache.copies.get(ID)
  t.match(copy, { kind: 'cache', directory: join(w.cache.root, 'acme--model'),
    manifest: { revision: hub.commit(ID) } })
  const [published] = await w.cache.list()
  t.equal(published?.record?.source, `hub:${hub.url}@${hub.commit(ID)}`, 'as the store writes it')
  t.same(readdirSync(w.staging.root), ['.incoming', '.trash'], 'not into the staging folder')
  hub.reset()
  await w.stager.stage(ID).ended
  t.equal(hub.fetches('m.gguf').length, 0, 'the same commit is not fetched again')
  t.ok(w.log.lines.some(([line]) => /downloading from the hub/.test(line)))

  for (const changed of [{ digest: 'e'.repeat(64) }, { totalBytes: 1 }]) {
    const wrong = { ...found(), fact: { ...fact, ...changed } } as Found
    const other = await world(t, () => wrong, { hub: client })
    await other.stager.stage(ID).ended
    t.match(other.failures, [{ reason: 'download_failed', message: /different files of acme\/model/ }])
    t.same([other.local.versions(ID), readdirSync(join(other.cache.root, '.incoming'))], [[], []],
      'what is not the content of the store is not kept')
  }

  const part = item(t, { content: new Map([['m.gguf', CONTENT.get('m.gguf')!]]) })
  const chosen = { ...factOf(part), choice: { allow: ['m.gguf'], variant: null } }
  const some = await world(t, () => ({ ...found(), fact: chosen } as Found), { hub: client })
  await some.stager.stage(ID).ended
  t.same([some.failures, some.cache.copies.get(ID)?.digest], [[], part.digest], 'the files the store has')

  const none = await world(t, found)
  await none.stager.stage(ID).ended
  t.match(none.failures, [{ reason: 'store_unreachable', message: 'gone' }],
    'without a hub that is the cause')
  const tight = await world(t, found, { hub: client, freeSpace: new FreeSpace(2 ** 60) })
  hub.reset()
  await tight.stager.stage(ID).ended
  t.match(tight.failures, [{ reason: 'no_safe_fit', message: /must stay free/ }])
  t.equal(hub.fetches('m.gguf').length, 0)
  const lan: Found = { ...item(t), from: 'lan' }
  let asked = 0
  const left = await world(t, () => asked++ === 0 ? lan : found(), { hub: client })
  await left.stager.stage(ID).ended
  t.same([left.failures, left.cache.copies.get(ID)?.kind], [[], 'cache'], 'all who had it are gone')
})

t.test('with a staged copy of the content the store had, no hub is asked', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': CONTENT.get('m.gguf')! } } } })
  t.teardown(async () => { await hub.close() })
  const one = item(t, { content: new Map([['m.gguf', CONTENT.get('m.gguf')!]]) })
  let found: Found = offered(one)
  const w = await world(t, () => found, { hub: clientOf(hub) })
  await w.stager.stage(ID).ended
  found = { from: 'hub', commit: '', fact: factOf(one), why: errorOf('store_unreachable', 'gone') }
  const job = w.stager.stage(ID)
  await job.ended
  t.equal(job.state, 'complete')
  t.equal(hub.fetches('m.gguf').length, 0, 'the copy that is here is good enough while no store can be asked')
})
