import t from 'tap'
import { join } from 'node:path'
import { startHub } from '../../plugins/staging/test/hub-kit.js'
import { refusal } from './http.js'
import { figure, full, inTime, pick, secondsSince, until } from './kit.js'
import {
  copiesOf, folderOf, hashesOf, isCopy, listing, makeModel, MIB, pull, put, received, stage, startSite,
  together, transferOf, voiceFiles, type CreatedModel, type Place, type Staged
} from './staging-kit.js'

const VOICE = hashesOf(voiceFiles())
/** Skip reason for subtests that only `npm run test:faults` runs. */
const SHORT = pick<string | false>('only in the long form: npm run test:faults', false)
const LATEST = { seconds: pick(75, 150) }

t.test('T-D13: the store host stops in the middle', async (t) => {
  const files = voiceFiles()
  const hub = await startHub({ models: { 'acme/begun': { files }, 'acme/fresh': { files },
    'acme/later': { files } } })
  t.teardown(() => hub.close())
  const reachable = { enabled: true, url: hub.url, redirect_hosts: [hub.cdnHost] }
  const site = await startSite(t, { nodes: 4, storeOn: 4, config: (n) => ({ model_store: {
    ...n === 4 ? { upload_mib_per_second: 3 } : n === 2 ? { upload_mib_per_second: 5 } : {},
    hub: n === 1 || n === 4 ? reachable : { enabled: false }
  } }) })
  const [hubbed, lonely, third, host] = site.nodes as [Place, Place, Place, Place]
  for (const id of ['acme/begun', 'acme/fresh', 'acme/later']) t.match(await pull(host, id, {}),
    { status: 'complete' })
  const sizes = { rest: 24, cut: pick(12, 24), kept: 1, other: 1 }
  const [rest, cut, kept, other] = Object.entries(sizes).map(([name, size]) =>
    makeModel(t, `acme/${name}`, { 'weights.data': size * MIB })) as
    [CreatedModel, CreatedModel, CreatedModel, CreatedModel]
  for (const model of [cut, other]) await put(site, model)
  for (const model of [kept, rest]) {
    await put(site, model)
    t.match(await stage(host, model.modelId, [lonely]), [{ status: 'complete' }])
  }
  await until('all copies to be known', async () => (await Promise.all(site.nodes.map(async (node) =>
    [...await copiesOf(node, kept.modelId), ...await copiesOf(node, rest.modelId)].filter(({ kind }) =>
      kind === 'staged').length === 2))).every((yes) => yes))
  const sent = hub.sent()

  const begin = async (at: Place, modelId: string, bytes: number): Promise<void> => {
    await stage(at, modelId, [at], { wait: false })
    await received(at, modelId, bytes)
  }
  // Only the long form waits until a node asks the hub, half a minute after losing its peer.
  await Promise.all([full ? begin(hubbed, 'acme/begun', 1) : undefined, begin(lonely, cut.modelId, 1),
    begin(third, rest.modelId, 1)])
  t.equal((await transferOf(lonely, cut.modelId))?.kind, 'DownloadOngoing', 'in the middle')
  if (full) host.signal('SIGSTOP')
  else await host.kill()
  const start = performance.now()
  const end = async (at: Place, modelId: string): Promise<Staged & { seconds: number }> => {
    const [ended] = await stage(at, modelId, [at], LATEST)
    return { ...ended!, seconds: secondsSince(start) }
  }
  // A node without a hub fails only after the same half minute, so the short form does not wait for it.
  const [fromHub, none, fromPeer] = await Promise.all([full ? end(hubbed, 'acme/begun') : undefined,
    full ? end(lonely, cut.modelId) : undefined, end(third, rest.modelId)])

  await t.test('a node with the complete copy sends the rest', async (t) => {
    t.match(fromPeer, { status: 'complete', error: null })
    t.ok(isCopy(folderOf(third.staging, rest.modelId), rest.sha256))
  })

  await t.test('no node has the rest: an error, not a hang', { skip: SHORT }, async (t) => {
    t.match(none, { status: 'failed', error: /acme\/cut/ })
    t.match(await transferOf(lonely, cut.modelId), { kind: 'DownloadFailed' })
    t.strictSame(listing(folderOf(lonely.staging, cut.modelId)), [], 'nothing is published')
    figure(t, 'T-D13', inTime(none!.seconds, 120), { reason: none!.reason, seconds: none!.seconds })
  })

  await t.test('the hub sends the rest of its model', { skip: SHORT }, async (t) => {
    t.match(fromHub, { status: 'complete', error: null })
    t.ok(hub.sent() > sent, 'the hub was asked')
    t.ok(isCopy(folderOf(join(hubbed.home, 'hub'), 'acme/begun'), VOICE), 'it is in the cache of the node')
    figure(t, 'T-D13', t.passing(), { seconds: fromHub!.seconds })
  })

  await t.test('requests while it is away', async (t) => {
    t.match(await stage(hubbed, 'acme/fresh', [hubbed], LATEST), [{ status: 'complete', error: null }],
      'from the hub')
    t.ok(isCopy(folderOf(join(hubbed.home, 'hub'), 'acme/fresh'), VOICE))
    t.match(await until('the copied node to be reported', async () => {
      const copies = (await copiesOf(lonely, 'acme/fresh')).filter(({ live }) => live)
      return copies.length > 0 && copies
    }, { seconds: 5 }).catch((error: Error) => [error.message]), [{ kind: 'cache', nodeName: 'n1' }])
    t.match(await stage(third, other.modelId, [third], LATEST),
      [{ status: 'failed', reason: 'store_unreachable', error: /n4/ }], 'without a hub: which node is away')
    t.match(await stage(third, kept.modelId, [third], LATEST), [{ status: 'complete' }], 'from another node')
    t.ok(isCopy(folderOf(third.staging, kept.modelId), kept.sha256))
    const health = await third.ask('/store/health')
    t.match([health.status, refusal(health)?.reason], [503, 'store_unreachable'])
    t.match(refusal(health)?.message, /n4/)
  })

  await t.test('when it is back, everything continues', async (t) => {
    if (full) host.signal('SIGCONT')
    else await host.start()
    await together(site.nodes)
    t.match(await stage(lonely, cut.modelId, [lonely], LATEST), [{ status: 'complete' }])
    t.ok(isCopy(folderOf(lonely.staging, cut.modelId), cut.sha256))
  })
})

t.test('T-D13: the store host was the master', { skip: SHORT }, async (t) => {
  const hub = await startHub({ models: { 'acme/hubbed': { files: voiceFiles() } } })
  t.teardown(() => hub.close())
  const site = await startSite(t, { nodes: 3, config: (n) => ({ model_store: {
    hub: n === 3 ? { enabled: false } : { enabled: true, url: hub.url, redirect_hosts: [hub.cdnHost] }
  } }) })
  const [first, second, third] = site.nodes as [Place, Place, Place]
  t.match(await pull(first, 'acme/hubbed', {}), { status: 'complete' })
  const [shared, other] = ['shared', 'other'].map((name) =>
    makeModel(t, `acme/${name}`, { 'weights.data': MIB })) as [CreatedModel, CreatedModel]
  await put(site, other)
  await put(site, shared)
  t.match(await stage(first, shared.modelId, [third]), [{ status: 'complete' }])
  await until('n2 to know of the copy', async () => (await copiesOf(second, shared.modelId)).length === 2)
  await first.kill()
  await until('a new master', async () => {
    const states = await Promise.all([second, third].map((node) => node.state()))
    return states.every((state) => state.cluster.liveNodes === 2 && state.masterNodeId !== null &&
      state.masterNodeId !== first.node.nodeId && state.sessionId === states[0]!.sessionId)
  })
  t.match(await stage(second, 'acme/hubbed', [second]), [{ status: 'complete', error: null }],
    'the hub has it')
  t.match(await stage(second, shared.modelId, [second]), [{ status: 'complete', error: null }], 'n3 has it')
  t.match(await stage(third, other.modelId, [third]), [{ status: 'failed', reason: 'store_unreachable',
    error: /n1/ }])
  const health = await second.ask('/store/health')
  t.match([health.status, refusal(health)?.reason], [503, 'store_unreachable'],
    'a store is configured, and away')
})
