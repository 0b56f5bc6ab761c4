import t from 'tap'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startHub } from '../../plugins/staging/test/hub-kit.js'
import { figure, folder, pick, sparing, until } from './kit.js'
import {
  events, folderOf, hashesOf, healthOf, incoming, isCopy, listing, makeModel, MIB, pull, put, stage,
  startSite, svcAt, together, transferOf, voiceFiles, type Place
} from './staging-kit.js'

/** Environment in which a node requires more free space than any disk has. */
const TOO_MUCH = sparing(2 ** 50)
const SANE = sparing(64 * MIB)
const ARITHMETIC = /more do not fit: .* GiB are free, .* GiB must stay free .* GiB are missing/

/** Skip reason for subtests that only `npm run test:faults` runs. */
const SHORT = pick<string | false>('only in the long form: npm run test:faults', false)

t.test('T-D08: a copy that does not fit beside the headroom is refused before its first byte', async (t) => {
  const hub = await startHub({ models: { 'acme/hubbed': { files: voiceFiles(), licence: 'mit' } } })
  t.teardown(() => hub.close())
  const site = await startSite(t, {
    proxied: true, env: (n) => n === 2 ? TOO_MUCH : SANE,
    config: () => ({ model_store: { hub: { enabled: true, url: hub.url, redirect_hosts: [hub.cdnHost] } } })
  })
  const [first, second] = site.nodes as [Place, Place]
  const model = makeModel(t, 'acme/big', { 'weights.data': 20 * MIB })
  await put(site, model)

  await t.test('a staged copy', async (t) => {
    const before = site.proxy!.seen.down
    const [ended] = await stage(first, model.modelId, [second])
    t.match(ended, { status: 'failed', reason: 'no_safe_fit', error: ARITHMETIC })
    t.match(await transferOf(second, model.modelId),
      { kind: 'DownloadFailed', reason: 'no_safe_fit', message: ARITHMETIC, bytes: 0 })
    t.strictSame(incoming(second.staging), [], 'nothing was begun')
    t.ok(site.proxy!.seen.down - before < MIB, 'and no byte of it was sent')
    t.match(await until('the event', async () => {
      const found = await events(first, 'DownloadFailed')
      return found.length > 0 && found
    }), [{ nodeId: second.node.nodeId, reason: 'no_safe_fit', errorMessage: ARITHMETIC }])
    t.ok((await healthOf(second)).includes('download_failed'))
    const said = await svcAt(first, ['stage', model.modelId, '--node', 'n2'])
    t.equal(said.status, 6, `svc stage: ${said.stdout} ${said.stderr}`)
  })

  await t.test('a download into the store', async (t) => {
    await first.kill()
    await first.start({}, TOO_MUCH)
    await together(site.nodes)
    const sent = hub.sent()
    t.match(await pull(second, 'acme/hubbed', {}), { status: 'failed', reason: 'no_safe_fit',
      error: ARITHMETIC })
    t.equal(hub.sent(), sent, 'no byte was fetched')
    t.strictSame(incoming(site.store), [])
    const said = await svcAt(first, ['pull', 'acme/hubbed'])
    t.equal(said.status, 6, `svc pull: ${said.stdout} ${said.stderr}`)
    t.match(said.stderr, ARITHMETIC)
    const other = makeModel(t, 'acme/other', { 'weights.data': MIB })
    const folderSaid = await svcAt(first, ['pull', other.folder])
    t.equal(folderSaid.status, 6, `svc pull of a folder: ${folderSaid.stdout} ${folderSaid.stderr}`)
  })

  await t.test('a linked staged copy uses no disk space', async (t) => {
    t.match(await stage(first, model.modelId, [first]), [{ status: 'complete' }])
    t.ok(isCopy(folderOf(first.staging, model.modelId), model.sha256))
  })

  await t.test('with a normal headroom both work', async (t) => {
    await Promise.all(site.nodes.map((node) => node.kill()))
    await Promise.all(site.nodes.map((node) => node.start({}, SANE)))
    await together(site.nodes)
    t.match(await pull(second, 'acme/hubbed', {}), { status: 'complete' })
    t.match(await stage(first, model.modelId, [second]), [{ status: 'complete' }])
    t.ok(isCopy(folderOf(second.staging, model.modelId), model.sha256))
    t.match(await stage(first, 'acme/hubbed', [second]), [{ status: 'complete' }])
    t.ok(isCopy(folderOf(second.staging, 'acme/hubbed'), hashesOf(voiceFiles())))
    t.notOk((await healthOf(second)).includes('download_failed'))
  })
})

const root = process.getuid?.() === 0 && process.platform === 'linux'
t.test('T-D09: another program fills the disk in the middle',
  { skip: root ? false : 'mounting a small disk needs root on Linux' }, async (t) => {
    const disk = mkdtempSync(join(tmpdir(), 'svc-small-'))
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', disk]).status !== 0) {
      rmSync(disk, { recursive: true })
      t.comment('skipped: this system does not allow mounting a disk')
      return
    }
    t.teardown(() => { spawnSync('umount', ['-l', disk]); rmSync(disk, { recursive: true, force: true }) })
    const site = await startSite(t, {
      env: () => sparing(4 * MIB),
      config: (n) => n === 1 ? { model_store: { upload_mib_per_second: 8 } } : { node_cache_path: join(disk,
        'staging') }
    })
    const [first, second] = site.nodes as [Place, Place]
    const below = join(disk, 'staging')
    const model = makeModel(t, 'acme/fill', { 'weights.data': 40 * MIB })
    await put(site, model)
    await stage(first, model.modelId, [second], { wait: false })
    await until('a part to arrive',
      async () => ((await transferOf(second, model.modelId))?.bytes ?? 0) > 4 * MIB)
    try {
      for (let n = 0; ; n++) writeFileSync(join(disk, `fill-${n}`),
        Buffer.alloc(MIB))
    } catch { /* full */ }
    const start = performance.now()
    const [ended] = await stage(first, model.modelId, [second])
    // If the first transfer has already failed on the full disk, admission refuses the second one.
    t.match(ended, { status: 'failed', reason: /^(disk_full|no_safe_fit)$/, error: String })
    figure(t, 'T-D09', t.passing(), { seconds: Math.round((performance.now() - start) / 1000) })
    t.match(await second.ask('/healthz'), { status: 200 })
    t.strictSame(listing(folderOf(below, model.modelId)), [], 'nothing is published')
    t.strictSame(incoming(below), [], 'on a full disk what was fetched is given up')
    t.match(await stage(first, model.modelId, [second]), [{ status: 'failed', reason: 'no_safe_fit' }],
      'still full')
    for (const name of listing(disk)) if (name.startsWith('fill-')) rmSync(join(disk, name))
    t.match(await stage(first, model.modelId, [second]), [{ status: 'complete' }],
      'with room again, it comes')
    t.ok(isCopy(folderOf(below, model.modelId), model.sha256))
    const more = makeModel(t, 'acme/more', { 'weights.data': 30 * MIB })
    await put(site, more)
    t.match(await stage(first, more.modelId, [second]), [{ status: 'complete' }], 'an idle copy makes room')
    t.strictSame(listing(folderOf(below, model.modelId)), [], 'the older one went')
    t.match(await events(second, 'StagedModelEvicted'), [{ modelId: model.modelId, trigger: 'capacity' }])
  })

t.test('an unusable folder of staged copies', async (t) => {
  const file = join(folder(t), 'file')
  writeFileSync(file, '')
  const site = await startSite(t, { nodes: 1, config: () => ({ node_cache_path: join(file,
    'below/staging') }) })
  const [node] = site.nodes as [Place]
  t.ok((await healthOf(node)).includes('staging_unusable'), 'its health says so')
  const model = makeModel(t, 'acme/nowhere', { 'weights.data': 10 })
  await put(site, model)
  const [ended] = await stage(node, model.modelId, [node])
  t.match(ended, { status: 'failed', error: /cannot be used/ })
  for (const path of ['/healthz', '/v1/models', '/models/copies', '/store/registry', '/store/health',
    '/store/storage',
    '/store/downloads', `/store/models/${model.modelId}/manifest`, `/models/${model.modelId}/card`]) {
    const answer = await node.ask(path)
    t.equal(answer.status, 200, `${path}: ${answer.text.slice(0, 200)}`)
  }
  const purged = await node.ask('/store/purge-staging', { body: {} })
  t.equal(purged.status, 200, purged.text)
})

t.test('an unusable store folder', { skip: SHORT }, async (t) => {
  const site = await startSite(t)
  const [first, second] = site.nodes as [Place, Place]
  const model = makeModel(t, 'acme/gone', { 'weights.data': 10 })
  await put(site, model)
  await first.kill()
  rmSync(site.store, { recursive: true })
  writeFileSync(site.store, 'a file')
  await first.start()
  await until('the health to report it', async () => (await healthOf(first)).includes('staging_unusable'))
  await until('n2 to see n1', async () => (await second.state()).cluster.liveNodes === 2)
  const [ended] = await stage(second, model.modelId, [second])
  t.match(ended, { status: 'failed', error: String })
  for (const node of site.nodes) {
    for (const path of ['/healthz', '/v1/models', '/store/storage']) t.equal((await node.ask(path)).status,
      200)
    const answer = await node.ask('/store/registry')
    t.equal(answer.status, 503, `registry: ${answer.text.slice(0, 200)}`)
  }
  rmSync(site.store)
  mkdirSync(site.store)
})
