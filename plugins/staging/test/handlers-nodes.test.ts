import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { systemClock } from '../../../kernel/api/clock.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { file, manifest } from '../handlers/files.js'
import { eitherSpelling, modelIdOf } from '../handlers/request.js'
import { purge, remove, withoutRoom } from '../handlers/storage.js'
import { stage } from '../handlers/stage.js'
import { ModelRoot } from '../files/root.js'
import { FreeSpace } from '../space/free-space.js'
import { Job } from '../transfer/job.js'
import type { StageJob } from '../staged/stager.js'
import { StoreAccess } from '../peers/store-access.js'
import { StoreError } from '../types.js'
import { gguf, llama } from './cards-kit.js'
import {
  call, contextOf, fakeRequest, json, known, memorySection, Network, pull, scratch, soon, startNode, until
} from './manager-kit.js'
import type { MemberResponse } from '../../../kernel/index.js'
import type { ModelManager } from '../manager/manager.js'
import type { Purged } from '../space/evictor.js'
import type { FakeRequest, NetNode } from './manager-kit.js'

const ID = 'acme/model'
const nothing: Purged = { removed: [], skippedInUse: [], freedBytes: 0, error: null }

interface World {
  net: Network
  manager: ModelManager
  peer: NetNode
  host: NetNode
  job: StageJob
  emitted: [string, Record<string, unknown>][]
  purged: unknown[]
}

/** A node `me` without a store, a node `peer`, and the store host `host`. */
function world (purge: () => Purged = () => nothing, more: Record<string, unknown> = {}): World {
  const net = new Network()
  const cluster = net.node('me')
  const peer = net.node('peer')
  const host = net.node('host')
  const storeHosts = memorySection<{ since: string }>('n-me')
  storeHosts.says('n-host', 'store', { since: '' })
  const emit = (kind: string, payload: Record<string, unknown>): void => { emitted.push([kind, payload]) }
  const ctx = contextOf(cluster, { emit, sections: { storeHosts } })
  const access = new StoreAccess(ctx, known)
  const emitted: World['emitted'] = []
  const purged: unknown[] = []
  const job: StageJob = new Job(ID, { digest: undefined }, { clock: systemClock, onChange: () => {} })
  const manager = {
    virtual: () => [],
    ctx, cluster, access, store: null, clock: systemClock,
    local: { versions: () => [] }, exchange: { partial: () => undefined },
    evictor: { purge: async (...given: unknown[]) => { purged.push(given); return purge() } },
    stager: { stage: () => job },
    ...more
  } as unknown as ModelManager
  return { net, manager, peer, host, job, emitted, purged }
}

const asking = (body: object, more = {}): FakeRequest =>
  fakeRequest({ params: { model_id: ID }, body, ...more })

t.test('ids', (t) => {
  t.equal(modelIdOf(ID), ID)
  t.throws(() => modelIdOf('x', '/modelId'),
    { name: 'SvcError', reason: 'invalid_request', param: 'modelId' })
  t.equal(eitherSpelling({ a: 1 }, 'a', 'b'), 1)
  t.equal(eitherSpelling({ b: 2 }, 'a', 'b'), 2)
  t.equal(eitherSpelling({}, 'a', 'b'), undefined)
  t.throws(() => eitherSpelling({ a: 1, b: 1 }, 'a', 'b'),
    { name: 'SvcError', reason: 'invalid_request', message: /not both/ })
  t.end()
})

t.test('a purge goes to every node; who cannot be reached is named', async (t) => {
  const w = world(() => ({ removed: [ID], skippedInUse: [], freedBytes: 5, error: null }))
  w.peer.serve = () => json(200,
    { nodes: [{ nodeId: 'n-peer', removed: [ID], skippedInUse: ['a/b'], freedBytes: 7, error: null }] })
  w.net.lose('host')
  const answer = await purge(w.manager, asking({ model_id: ID }, { headers: { 'x-svc-command-id': 'c1' } }))
  t.match(answer, {
    commandId: 'c1',
    message: /Removed 2 staged copies, 12 bytes/,
    nodes: [
      { nodeId: 'n-me', removed: [ID], freedBytes: 5, error: null },
      { nodeId: 'n-peer', removed: [ID], skippedInUse: ['a/b'], freedBytes: 7, error: null },
      { nodeId: 'n-host', removed: [], skippedInUse: [], freedBytes: 0, error: 'it gives no sign of life' }
    ]
  })
  t.match(w.purged, [[ID]])
  t.match(w.peer.asked, [{ method: 'POST', path: '/store/purge-staging', body: { modelId: ID } }])
  t.match(w.emitted, [['StagingPurged', { nodeId: 'n-me', removed: [ID], freedBytes: 5 }]])
})

t.test('a preview of a purge asks every node, removes nothing and is no event', async (t) => {
  const copy = { modelId: ID, sizeBytes: 7, freeableBytes: 7, inUse: false, overBudget: true }
  const told = { removed: [ID], skippedInUse: [], freedBytes: 7, error: null }
  const w = world(undefined, {
    evictor: {
      preview: async () =>
        ({ ...told, freedBytes: 21, copies: [2000, 5000, 9000].map((ms) => ({ ...copy, lastUsedMs: ms })) }),
      purge: () => { throw new Error('it must not') }
    }
  })
  const theirs = { nodeId: 'n-peer', ...told, copies: [{ ...copy, lastUsedEpochSeconds: 1 }] }
  w.peer.serve = () => json(200, { nodes: [theirs] })
  w.host.serve = () => json(400, { error: { reason: 'invalid_request', message: 'no dryRun here' } })
  const answer = await purge(w.manager, asking({ dry_run: true })) as { message: string, nodes: unknown[] }
  t.match(w.peer.asked, [{ body: { dryRun: true } }])
  t.equal(answer.message, 'Would remove 2 staged copies, 28 bytes.')
  t.match(answer.nodes, [
    { nodeId: 'n-me', removed: [ID], freedBytes: 21, copies: [2, 5, 9].map((lastUsedEpochSeconds) =>
      ({ ...copy, lastUsedEpochSeconds })) },
    theirs,
    { nodeId: 'n-host', removed: [], copies: [], error: 'no dryRun here' }
  ])
  t.same(w.emitted, [])
})

t.test('a purge that another node passed on is done here alone', async (t) => {
  const w = world()
  t.match(await purge(w.manager, asking({}, { member: 'i-peer' })), { nodes: [{ nodeId: 'n-me' }] })
  t.same(w.peer.asked, [])
  t.match(w.purged, [[undefined]])
})

t.test('that a model was deleted is believed of a member only', async (t) => {
  const w = world()
  const headers = { 'x-svc-store-delete': '1' }
  await purge(w.manager, asking({ modelId: ID }, { member: 'i-peer', headers }))
  t.same(w.purged, [[ID, 'store_delete']])
  t.same(w.emitted, [], 'each copy that went is an event of its own')
  w.peer.serve = () => json(200, { nodes: [{ nodeId: 'n-peer', ...nothing }] })
  await purge(w.manager, asking({ modelId: ID }, { headers }))
  t.same(w.purged.at(-1), [ID, 'purge'])
  t.match(w.emitted, [['StagingPurged', { nodeId: 'n-me' }]])
  t.equal(w.peer.asked[0]?.headers?.['x-svc-store-delete'], undefined)
})

t.test('a purge waits 20 s for a node, and not longer', async (t) => {
  const clock = manualClock()
  const w = world(() => nothing, { clock })
  w.net.lose('host')
  w.peer.serve = async () => await new Promise<MemberResponse>(() => {})
  const answer = purge(w.manager, asking({})) as Promise<{ nodes: unknown[] }>
  await clock.advance(20_000)
  t.match((await soon(answer)).nodes[1],
    { nodeId: 'n-peer', error: 'it did not answer completely within 20 s' })
})

t.test('bodies of a purge', async (t) => {
  const rig = await startNode(t)
  for (const body of [undefined, [], { modelId: 'x' }, { modelId: 7 }, { other: 1 },
    { modelId: ID, model_id: ID }]) {
    const answer = await rig.inject({ method: 'POST', url: '/store/purge-staging',
      ...body === undefined ? {} : { payload: body } })
    t.equal(answer.statusCode, 400, JSON.stringify(body))
  }
  t.match((await call(rig, 'POST', '/store/purge-staging', {})),
    { status: 200, body: { commandId: String, nodes: [{ error: null }] } })
})

t.test('deleting at a store: its own failures have names', async (t) => {
  const store = {
    offer: () => undefined, get: () => ({}), status: () => ({ status: 'complete' }),
    remove: async () => { throw new StoreError('not_in_store', 'it went just now') }
  }
  const w = world(() => nothing, { store })
  await t.rejects(remove(w.manager, asking({})), { name: 'SvcError', reason: 'model_not_found', status: 404 })
  t.same(w.emitted, [])
  const without = world()
  without.host.serve = () => json(200, { modelId: ID, deleted: true })
  t.match(await remove(without.manager, asking({})), { status: 200, body: { deleted: true } })
  t.match(without.host.asked, [{ method: 'DELETE', path: `/store/models/${ID}` }])
})

t.test('staging on this node: at once, or when it has ended', async (t) => {
  const w = world()
  t.match(await stage(w.manager, asking({})),
    { message: /0 of 1/, nodes: [{ nodeId: 'n-me', status: 'pending', error: null }] })
  w.job.moved({ bytes: 1, totalBytes: 2, files: 0, totalFiles: 1 })
  t.match(await stage(w.manager, asking({ nodeIds: [] })), { nodes: [{ status: 'downloading' }] })
  let over = false
  const waiting = (stage(w.manager, asking({ nodeIds: ['me'], wait: true })) as Promise<{ nodes: unknown[] }>)
    .finally(() => { over = true })
  for (let i = 0; i < 5; i++) await new Promise((resolve) => { setImmediate(resolve) })
  t.notOk(over)
  w.job.complete(2)
  t.match((await soon(waiting)).nodes, [{ status: 'complete', error: null }])
  t.match(await stage(w.manager, asking({ wait: true })), { message: /1 of 1/ },
    'what is over is not waited for')
})

t.test('waiting ends by the time that was given, or when the client goes; the transfer goes on',
  async (t) => {
    const clock = manualClock()
    const w = world(() => nothing, { clock })
    const waiting = stage(w.manager, asking({ wait: true, timeout_seconds: 5 }))
    await clock.advance(5000)
    t.match(await soon(waiting), { nodes: [{ status: 'pending' }] })
    const abort = new AbortController()
    const left = stage(w.manager, asking({ wait: true }, { signal: abort.signal }))
    await clock.advance(1)
    abort.abort(new Error('gone'))
    t.match(await soon(left), { nodes: [{ status: 'pending' }] })
    t.notOk(w.job.over)
    t.notOk(w.job.signal.aborted)
  })

t.test('nodes are asked whether copies of a model fit; one that says nothing counts as one with room',
  async (t) => {
    const root = scratch(t)
    const asked: number[] = []
    const { manager, peer, host } = world(undefined, {
      companionsOf: () => ['acme/draft', 'acme/here'], digestOf: () => null,
      local: { get: (id: string) => id === 'acme/here' ? {} : undefined },
      catalogue: { copies: (id: string) => [{ kind: 'store', sizeBytes: id === ID ? 100 : 7 }] },
      freeSpace: new FreeSpace(0), roots: { staged: new ModelRoot({ root, clock: systemClock }) },
      evictor: { requireRoom: async (bytes: number) => {
        asked.push(bytes)
        throw new StoreError('no_safe_fit', '107 bytes are missing')
      } }
    })
    peer.serve = () => json(200, { problem: 'no room here either' })
    host.serve = () => json(404, { error: { reason: 'not_found', message: 'an older version' } })
    t.same(await withoutRoom(manager, ID, ['n-me', 'n-peer', 'n-host', 'n-none']), [
      { nodeId: 'n-me', message: '107 bytes are missing' },
      { nodeId: 'n-peer', message: 'no room here either' }
    ])
    t.same(asked, [107], 'the companion that is not here counts too')
    t.match(peer.asked, [{ method: 'GET', path: '/store/models/acme/model/room' }])
  })

t.test('a failed transfer is told with its reason', async (t) => {
  const w = world()
  w.job.fail({ reason: 'no_safe_fit', message: 'too little' })
  t.match(await stage(w.manager, asking({ wait: true })),
    { nodes: [{ status: 'failed', error: 'too little', reason: 'no_safe_fit' }] })
})

t.test('staging on other nodes, each once; unknown ones refuse it all', async (t) => {
  const w = world()
  w.peer.serve = () => json(200,
    { nodes: [{ nodeId: 'n-peer', status: 'complete', error: null, reason: null }] })
  const body = { node_ids: ['peer', 'i-peer', 'n-peer', 'local'], wait: true, timeout_seconds: 7 }
  w.job.complete(1)
  t.match(await stage(w.manager, asking(body)), {
    message: /2 of 2/, nodes: [{ nodeId: 'n-peer', status: 'complete' },
      { nodeId: 'n-me', status: 'complete' }]
  })
  t.match(w.peer.asked,
    [{ path: `/store/models/${ID}/stage`, body: { wait: true, timeout_seconds: 7 }, timeoutMs: 22_000 }])
  await t.rejects(stage(w.manager, asking({ nodeIds: ['peer', 'nobody'] })),
    { name: 'SvcError', reason: 'node_not_found', status: 404 })
  await t.rejects(stage(w.manager, asking({ nodeIds: ['peer'], node_ids: ['peer'] })),
    { name: 'SvcError', reason: 'invalid_request' })
  w.peer.serve = () => json(200, {})
  t.match(await stage(w.manager, asking({ nodeIds: ['peer'] })),
    { nodes: [{ nodeId: 'n-peer', status: 'failed', reason: 'unreachable' }] })
  w.peer.serve = () => json(200, { nodes: [] })
  t.match(await stage(w.manager, asking({ nodeIds: ['peer'] })),
    { nodes: [{ nodeId: 'n-peer', status: 'failed' }] },
    'an answer without the node is a failure of it')
})

t.test('files of the store host are passed through', async (t) => {
  const w = world()
  const request = (more = {}): FakeRequest => fakeRequest({
    params: { model_id: ID, '*': 'a/b.gguf' },
    headers: { range: 'bytes=0-4', 'if-range': '"x"', cookie: 'secret' }, ...more
  })
  w.host.serve = () => ({
    status: 206, body: Readable.from([Buffer.from('he'), Buffer.from('llo')]),
    headers: {
      etag: '"x"', 'content-range': 'bytes 0-4/9', 'content-length': '5', 'accept-ranges': 'bytes',
      'content-type': 'application/octet-stream', 'set-cookie': 'no'
    }
  })
  const asked = request()
  await file(w.manager, asked)
  t.equal(asked.sent.toString(), 'hello')
  t.match(asked.head, { status: 206,
    headers: { etag: '"x"', 'content-range': 'bytes 0-4/9', 'content-length': '5' } })
  t.equal(asked.head?.headers?.['set-cookie'], undefined)
  t.match(w.host.asked,
    [{ path: `/store/models/${ID}/files/a/b.gguf`, headers: { range: 'bytes=0-4', 'if-range': '"x"' } }])
  t.equal(w.host.asked[0]?.headers?.['cookie'], undefined)
  await t.rejects(file(w.manager, request({ member: 'i-peer' }) as never),
    { name: 'SvcError', reason: 'model_not_found' }, 'not in circles')
  await t.rejects(file(w.manager, request({ query: { from: 'self' } }) as never),
    { name: 'SvcError', reason: 'model_not_found' })
  const body = Readable.from([Buffer.from('hello')])
  w.host.serve = () => ({ status: 200, headers: { 'content-length': '5' }, body })
  let begun: unknown
  await file(w.manager, request({ open: (head: unknown) => {
    begun = head
    return { closed: true, write: async () => { throw new Error('a body after HEAD') } }
  } }))
  t.match(begun, { status: 200, headers: { 'content-length': '5' } }, 'also for HEAD')
  t.ok(body.destroyed)
  w.host.serve = () => json(200, { modelId: ID })
  t.match(await manifest(w.manager, request()), { status: 200, body: { modelId: ID } })
  await t.rejects(manifest(w.manager, request({ query: { from: 'self' } }) as never),
    { name: 'SvcError', reason: 'model_not_found' })
})

t.test('a client that goes away ends the request to the store host', async (t) => {
  const w = world()
  const body = Readable.from((function * () { for (;;) yield Buffer.alloc(10) })())
  w.host.serve = () => ({ status: 200, headers: {}, body })
  const request = fakeRequest({
    params: { model_id: ID, '*': 'f' },
    open: () =>
      ({ write: async () => { throw new Error('gone') }, end: async () => {}, cut: () => {}, closed: false })
  })
  await t.rejects(file(w.manager, request as never), { message: 'gone' })
  await until(() => body.destroyed)
  t.ok(body.destroyed)
  const refused = Readable.from([Buffer.from('x')])
  w.host.serve = () => ({ status: 200, headers: {}, body: refused })
  const full = fakeRequest({ params: { model_id: ID, '*': 'f' },
    open: () => { throw new Error('too many streams') } })
  await t.rejects(file(w.manager, full as never), { message: 'too many streams' })
  t.ok(refused.destroyed, 'also when the answer could not be opened')
})

t.test('bodies of staging', async (t) => {
  const source = scratch(t)
  writeFileSync(join(source, 'm.gguf'), gguf(llama))
  const rig = await startNode(t, { store: scratch(t) })
  await pull(rig, ID, { source: pathToFileURL(source).href })
  const bad: object[] = [{ nodeIds: 'x' }, { nodeIds: ['a', 'a'] }, { nodeIds: [''] }, { wait: 1 },
    { timeout_seconds: 0 }, { other: 1 }]
  for (const body of bad) t.equal((await call(rig, 'POST', `/store/models/${ID}/stage`, body)).status, 400,
    JSON.stringify(body))
  t.equal((await call(rig, 'POST', `/store/models/${ID}/stage`, { nodeIds: ['nobody'] })).status, 404)
  t.equal((await call(rig, 'POST', `/store/models/${ID}/stage`,
    { nodeIds: ['local', 'test'], wait: true })).status, 200)
})
