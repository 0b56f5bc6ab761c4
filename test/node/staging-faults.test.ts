import t from 'tap'
import { join } from 'node:path'
import { figure, pick, until } from './kit.js'
import {
  CHUNK, copiesOf, events, flip, folderOf, healthOf, incoming, isCopy, listing, makeModel, MIB, put, received,
  stage, startSite, together, transferOf, type Place
} from './staging-kit.js'

/** Limit in bytes of the traffic on the links during a test, without model data. */
const TALK = 3 * MIB

/** Skip reason for subtests that only `npm run test:faults` runs. */
const SHORT = pick<string | false>('only in the long form: npm run test:faults', false)

t.test('T-D01: kill -9 of the receiver, which resumes its transfer', async (t) => {
  const size = pick(40, 60) * MIB
  const site = await startSite(t, {
    proxied: true, config: () => ({ model_store: { upload_mib_per_second: 12 } })
  })
  const [first, second] = site.nodes as [Place, Place]
  const model = makeModel(t, 'acme/kill', { 'weights.data': size, 'small.txt': 1000 })
  await put(site, model)
  const shares = pick([0.5], [...Array.from({ length: 20 }, () => Math.random()), 0.1, 0.5, 0.99])
  for (const share of shares) {
    const before = site.proxy!.seen.down
    await stage(second, model.modelId, [second], { wait: false })
    await received(second, model.modelId, size * share)
    await second.kill()
    t.strictSame(listing(folderOf(second.staging, model.modelId)), [], 'nothing is published')
    await second.start()
    await together(site.nodes)
    t.match(await stage(first, model.modelId, [second]), [{ status: 'complete', error: null }])
    t.ok(isCopy(folderOf(second.staging, model.modelId), model.sha256), 'every byte is right')
    const again = site.proxy!.seen.down - before - model.bytes
    figure(t, 'T-D01', again <= CHUNK + TALK, { share, bytesTwiceMib: Math.round(again / MIB * 10) / 10 })
    t.strictSame(incoming(second.staging), [])
    t.match(await second.ask('/store/purge-staging', { body: {} }), { status: 200 })
  }
})

t.test('T-D02: a changed byte in the store', async (t) => {
  const site = await startSite(t)
  const [first, second] = site.nodes as [Place, Place]
  const model = makeModel(t, 'acme/flip', { 'weights.data': 20 * MIB })
  await put(site, model)
  flip(join(folderOf(site.store, model.modelId), 'weights.data'), CHUNK + 5)
  const [ended] = await stage(second, model.modelId, [second], { seconds: 30 })
  t.match(ended, { status: 'failed', reason: 'hash', error: /weights\.data.*wrong hash/ })
  t.strictSame(listing(folderOf(second.staging, model.modelId)), [], 'nothing is published')
  t.strictSame((await copiesOf(second, model.modelId)).map(({ kind }) => kind), ['store'])
  t.match(await transferOf(second, model.modelId), { kind: 'DownloadFailed', reason: 'hash' })
  t.ok((await healthOf(second)).includes('download_failed'), 'the health of the node says it')
  await until('the other node to see it too', async () => {
    const { downloads } = await first.state()
    return downloads[second.node.nodeId]?.some((view) => view['DownloadFailed']?.reason === 'hash')
  })
  t.match(await until('the event', async () => {
    const found = await events(first, 'DownloadFailed')
    return found.length > 0 && found
  }), [{ nodeId: second.node.nodeId, modelId: model.modelId, reason: 'hash', errorMessage: /wrong hash/ }])
  flip(join(folderOf(site.store, model.modelId), 'weights.data'), CHUNK + 5)
  t.match(await stage(second, model.modelId, [second]), [{ status: 'complete' }], 'mended, it comes')
  t.ok(isCopy(folderOf(second.staging, model.modelId), model.sha256))
  t.notOk((await healthOf(second)).includes('download_failed'), 'and the health is well again')
})

t.test('two concurrent receivers exchange their chunks', { skip: SHORT }, async (t) => {
  const site = await startSite(t, {
    nodes: 3, proxied: true, config: (n) => n === 1 ? { model_store: { upload_mib_per_second: 12 } } : {}
  })
  const [first, second, third] = site.nodes as [Place, Place, Place]
  const model = makeModel(t, 'acme/swarm', Object.fromEntries(
    Array.from({ length: pick(24, 60) }, (_, i) => [`part-${i}.data`, 2 * MIB])))
  await put(site, model)
  const before = site.proxy!.seen.down
  t.match(await stage(first, model.modelId, [second, third]),
    [{ status: 'complete' }, { status: 'complete' }])
  const times = Math.round((site.proxy!.seen.down - before) / model.bytes * 100) / 100
  figure(t, 'swarm', times < 1.7, { times })
  for (const node of [second, third]) t.ok(isCopy(folderOf(node.staging, model.modelId), model.sha256))
})
