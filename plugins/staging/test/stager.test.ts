import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { LocalCopies } from '../staged/local-copies.js'
import { FreeSpace } from '../space/free-space.js'
import { failureOf, Job } from '../transfer/job.js'
import { ModelRoot } from '../files/root.js'
import { contextOf, errorOf, Network, scratch, soon, until, type Test } from './manager-kit.js'
import { gate, memoryLog } from './store-kit.js'
import { CONTENT, factOf, ID, item, OTHER, offered, world } from './stager-kit.js'
import { wrongFiles } from './transfer-kit.js'
import type { HubClient } from '../hub/client.js'
import type { Evictor } from '../space/evictor.js'
import { StoreError } from '../types.js'

t.test('a model of the own store on the same disk is linked', async (t) => {
  const one = item(t)
  const w = await world(t, () => offered(one))
  const job = w.stager.stage(ID)
  t.equal(w.stager.stage(ID), job, 'a second wish joins the first')
  t.same(w.stager.active(), [ID])
  await job.ended
  t.match(job, { state: 'complete', failure: null,
    progress: { bytes: 100_010, totalBytes: 100_010, totalFiles: 3 } })
  t.same(w.told, [`pending ${ID}`, `completed ${ID}`])
  const folder = join(w.staging.root, 'acme--model')
  t.same(await wrongFiles(folder, CONTENT), [])
  t.equal(statSync(join(folder, 'm.gguf')).ino, statSync(join(one.directory, 'm.gguf')).ino)
  t.match(w.staging.copies.get(ID), { digest: one.digest, directory: folder })
  t.same(w.stager.active(), [])
  t.same(readdirSync(join(w.staging.root, '.incoming')), [])
})

t.test('what is there already is complete at once; another version replaces it', async (t) => {
  let one = item(t)
  const w = await world(t, () => offered(one))
  await w.stager.stage(ID).ended
  const { ino } = statSync(join(w.staging.root, 'acme--model'))
  await w.stager.stage(ID).ended
  t.equal(statSync(join(w.staging.root, 'acme--model')).ino, ino, 'not touched')
  one = item(t, { content: OTHER })
  await w.stager.stage(ID).ended
  t.same(await wrongFiles(join(w.staging.root, 'acme--model'), OTHER), [])
  t.same(readdirSync(join(w.staging.root, 'acme--model')).filter((name) => !name.startsWith('.')), ['m.gguf'])
  t.equal(w.stager.jobs().length, 1, 'the newest job of a model is kept')
})

t.test('another version comes beside the one in use, and takes its place when nothing uses it', async (t) => {
  let one = item(t)
  const old = one
  const used = new Set<string>()
  const w = await world(t, (_id, _signal, digest) => {
    if (digest !== undefined && digest !== one.digest) throw errorOf('model_not_found', 'another version')
    return offered(one)
  }, { inUse: (_id, digest) => used.has(digest) })
  const plain = join(w.staging.root, 'acme--model')
  const beside = join(w.beside.root, 'acme--model')
  await w.stager.stage(ID, old.digest).ended
  used.add(old.digest)
  one = item(t, { content: OTHER })
  await w.stager.stage(ID, one.digest).ended
  t.same(await wrongFiles(plain, CONTENT), [], 'what is in use stays as it is')
  t.same(await wrongFiles(beside, OTHER), [])
  t.match([w.local.get(ID, old.digest), w.local.get(ID, one.digest)],
    [{ kind: 'staged', directory: plain }, { kind: 'staged', directory: beside }])
  const again = w.stager.stage(ID, old.digest)
  await again.ended
  t.equal(again.state, 'complete', 'a copy that is here needs no store')

  await w.stager.settle(ID)
  t.same(await wrongFiles(plain, CONTENT), [], 'not while it is used')
  used.add(one.digest)
  const newest = item(t, { content: OTHER, bundled: true })
  one = { ...newest, digest: 'e'.repeat(64) }
  await w.stager.stage(ID, one.digest).ended
  t.match(w.failures, [{ reason: 'model_in_use', message: /other versions/ }], 'two at most')

  used.clear()
  await w.stager.settle(ID)
  t.same(await wrongFiles(plain, OTHER), [])
  t.equal(w.local.get(ID, old.digest), undefined)
})

t.test('a wish for one content does not join that for another', async (t) => {
  const one = item(t)
  const asked: unknown[] = []
  const w = await world(t, (_id, _signal, digest) => { asked.push(digest); return offered(one) })
  const [any, right, other] = [undefined, one.digest, 'f'.repeat(64)]
    .map((digest) => w.stager.stage(ID, digest))
  t.equal(w.stager.stage(ID, one.digest), right)
  t.equal(w.stager.stage(ID), any)
  await Promise.all([any, right, other].map(async (job) => { await job!.ended }))
  t.same(asked, [undefined, 'f'.repeat(64)], 'what has come meanwhile is not looked for')
})

t.test('what ships is copied chunk by chunk, in room that was asked for', async (t) => {
  const one = item(t, { bundled: true })
  const asked: unknown[] = []
  const evictor = { makeRoom: async (bytes: number,
    o: unknown) => { asked.push([bytes, o]) } }
  const w = await world(t, () => offered(one), { evictor: evictor as unknown as Evictor })
  await w.stager.stage(ID).ended
  t.same(w.failures, [])
  t.same(await wrongFiles(join(w.staging.root, 'acme--model'), CONTENT), [])
  t.same(asked[0], [100_010, ID])
  t.equal(statSync(join(w.staging.root, 'acme--model', 'm.gguf')).nlink, 1)
})

t.test('what a broken off transfer left counts as there', async (t) => {
  const one = item(t, { bundled: true })
  const asked: number[] = []
  const evictor = { makeRoom: async (bytes: number) => { asked.push(bytes) } }
  const w = await world(t, () => offered(one), { evictor: evictor as unknown as Evictor })
  const folder = w.staging.incoming(ID)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'm.gguf'), CONTENT.get('m.gguf')!)
  writeFileSync(join(folder, '.svc-journal'), `svc-journal 1 ${one.digest}\nc 0\n`)
  await w.stager.stage(ID).ended
  t.same(w.failures, [])
  t.ok(asked[0]! <= 10, `${asked[0]!} bytes more`)
})

t.test('no room: no_safe_fit, nothing begun; the next wish is a new attempt', async (t) => {
  const one = item(t, { bundled: true })
  let full = true
  const evictor = {
    makeRoom: async () => {
      if (full) throw new StoreError('no_safe_fit', 'too little')
    }
  }
  const w = await world(t, () => offered(one), { evictor: evictor as unknown as Evictor })
  const job = w.stager.stage(ID)
  await job.ended
  t.match(w.failures, [{ modelId: ID, reason: 'no_safe_fit', message: 'too little' }])
  t.match(job.view('n'),
    { DownloadFailed: { nodeId: 'n', modelId: ID, errorMessage: 'too little', reason: 'no_safe_fit' } })
  t.notOk(existsSync(w.staging.incoming(ID)))
  full = false
  const again = w.stager.stage(ID)
  t.not(again.attemptId, job.attemptId)
  await again.ended
  t.equal(again.state, 'complete')
})

t.test('a folder that cannot be used is the failure of what needs it', async (t) => {
  const w = await world(t, () => offered(item(t)))
  w.staging.usable = false
  await w.stager.stage(ID).ended
  t.match(w.failures, [{ modelId: ID, message: /cannot be used/ }])
  const why = errorOf('store_unreachable')
  const far = await world(t, () => ({ from: 'hub', commit: '', fact: factOf(item(t)), why }),
    { hub: {} as HubClient })
  far.cache.usable = false
  await far.stager.stage(ID).ended
  t.match(far.failures, [{ modelId: ID, message: /cannot be used/ }])
})

t.test('a failure to find is told with its reason', async (t) => {
  const w = await world(t, () => { throw errorOf('store_unreachable', 'gone') })
  await w.stager.stage(ID).ended
  t.match(w.failures, [{ reason: 'store_unreachable', message: 'gone' }])
  t.same(w.told, [`pending ${ID}`, `failed ${ID}`])
  w.stager.forget(ID)
  t.same(w.stager.jobs(), [])
})

const unused = (t: Test): ModelRoot =>
  Object.assign(new ModelRoot({ root: scratch(t), clock: systemClock }), { usable: false })

t.test('what ships with this node is used in place: nobody is asked', async (t) => {
  const one = item(t)
  const shipped = { models: () => [{ card: { ...one.card, files: [] }, directory: one.directory }] }
  const ctx = contextOf(new Network().node('me'), { log: memoryLog() })
  const roots = { staged: unused(t), beside: unused(t), cache: unused(t) }
  const local = new LocalCopies(ctx, roots, shipped)
  await local.open()
  const w = await world(t, () => { throw new Error('asked') }, { local })
  await w.stager.stage(ID).ended
  t.same(w.failures, [])
})

t.test('companions come with a model; their failure is its own', async (t) => {
  const main = item(t, { companions: ['acme/draft'] })
  const draft = item(t, { modelId: 'acme/draft', content: OTHER })
  let broken = false
  const w = await world(t, (id) => {
    if (id === ID) return offered(main)
    if (broken) throw errorOf('model_not_found', 'no draft')
    return offered(draft)
  })
  const job = w.stager.stage(ID)
  await job.ended
  t.equal(job.state, 'complete')
  t.ok(w.staging.copies.get('acme/draft'))
  t.same(w.told.at(-1), `completed ${ID}`, 'it is ready when its companions are')
  broken = true
  await w.stager.stage(ID).ended
  t.match(w.failures.at(-1), { modelId: ID, reason: 'model_not_found',
    message: 'its companion acme/draft: no draft' })
})

t.test('models that are each other\'s companions end too', async (t) => {
  const a = item(t, { companions: ['acme/b'] })
  const b = item(t, { modelId: 'acme/b', content: OTHER, companions: [ID] })
  const w = await world(t, (id) => offered(id === ID ? a : b))
  await soon(w.stager.stage(ID).ended)
  t.ok(w.staging.copies.get(ID))
  t.ok(w.staging.copies.get('acme/b'))
})

t.test('closing ends what runs, tells nobody of a failure, and keeps what came', async (t) => {
  const { opened, open } = gate()
  const one = item(t)
  const w = await world(t, async (_id, signal) => {
    await opened
    signal.throwIfAborted()
    return offered(one)
  })
  const job = w.stager.stage(ID)
  const closed = w.stager.close()
  open()
  await soon(closed)
  t.match(job, { state: 'closed', failure: { message: 'the node is stopping' } })
  t.same(w.told, [`pending ${ID}`])
})

t.test('after closing nothing begins any more', async (t) => {
  const main = item(t, { companions: ['acme/draft'] })
  const { opened, open } = gate()
  const asked: string[] = []
  const w = await world(t, async (id) => {
    asked.push(id)
    await opened
    return offered(main)
  })
  w.stager.stage(ID)
  await until(() => asked.length === 1)
  const closed = w.stager.close()
  open()
  await soon(closed)
  t.same(asked, [ID], 'its companion is not begun')
})

t.test('at most so many ended jobs are remembered', async (t) => {
  const w = await world(t, () => { throw new Error('no') })
  for (let i = 0; i < 100; i++) await w.stager.stage(`acme/m${i}`).ended
  t.equal(w.stager.jobs().length, 64)
  t.equal(w.stager.jobs().at(-1)?.modelId, 'acme/m99')
})

t.test('room: one transfer at a time on a disk; an abort leaves the queue', async (t) => {
  const freeSpace = new FreeSpace(0)
  const folder = scratch(t)
  const { opened, open } = gate()
  const order: string[] = []
  const first = freeSpace.alone(folder, undefined, async () => { order.push('a'); await opened })
  await until(() => order.length === 1)
  const abort = new AbortController()
  const second = freeSpace.alone(folder, abort.signal, async () => { order.push('b') })
  const third = freeSpace.alone(join(folder, 'deeper'), undefined, async () => { order.push('c') })
  second.catch(() => {})
  await new Promise((resolve) => { setImmediate(resolve) })
  abort.abort(new Error('enough'))
  await t.rejects(second, { message: 'enough' })
  open()
  await Promise.all([first, third])
  t.same(order, ['a', 'c'])
  await t.rejects(new FreeSpace(2 ** 60).check({ root: folder, setting: 'x' }, 1),
    { reason: 'no_safe_fit', message: /GiB.*\(x in svc/ })
  await freeSpace.check({ root: folder, setting: 'x' }, 1)
  await new FreeSpace(2 ** 60).check({ root: folder, setting: 'x' }, 0)
  writeFileSync(join(folder, 'f'), Buffer.alloc(10_000, 1))
  t.equal(await freeSpace.fetched(folder), 10_000)
  t.equal(await freeSpace.fetched(join(folder, 'none')), 0)
  const digest = 'a'.repeat(64)
  t.equal(await freeSpace.fetched(folder, digest), 0, 'without a journal nobody says what they are of')
  writeFileSync(join(folder, '.svc-journal'), `svc-journal 1 ${digest}\n`)
  t.ok(await freeSpace.fetched(folder, digest) >= 10_000)
  t.equal(await freeSpace.fetched(folder, 'b'.repeat(64)), 0,
    'bytes of another version may have to come again')
})

t.test('a job as /state shows it', (t) => {
  const clock = manualClock()
  const job = new Job(ID, null, { clock, onChange: () => {} })
  t.match(job.view('n'),
    { DownloadPending: { nodeId: 'n', modelId: ID, attemptId: job.attemptId, downloaded: 0 } })
  job.moved({ bytes: 0, totalBytes: 4000, files: 0, totalFiles: 2 })
  t.match(job.view('n'), { DownloadOngoing: { downloadProgress: { speed: 0, etaMs: null } } })
  t.end()
})

t.test('a job measures its rate', async (t) => {
  const clock = manualClock()
  const job = new Job(ID, null, { clock, onChange: () => {} })
  job.moved({ bytes: 0, totalBytes: 4000, files: 0, totalFiles: 2 })
  await clock.advance(1000)
  job.moved({ bytes: 1000, totalBytes: 4000, files: 1, totalFiles: 2 })
  t.match(job.view('n'), { DownloadOngoing: { downloadProgress: {
    total: 4000, downloaded: 1000, completedFiles: 1, totalFiles: 2, speed: 1000, etaMs: 3000
  } } })
  job.complete(4000)
  t.match(job.view('n'), { DownloadCompleted: { nodeId: 'n', modelId: ID, total: 4000 } })
  t.ok(job.over)
})

const failures: [unknown, { reason: string, message: string }][] = [
  [errorOf('no_safe_fit', 'x'), { reason: 'no_safe_fit', message: 'x' }],
  [new Error('y'), { reason: 'internal', message: 'y' }],
  [undefined, { reason: 'internal', message: 'undefined' }],
  ['text', { reason: 'internal', message: 'text' }],
  [Object.assign(new Error(''), { reason: 7 }), { reason: 'internal', message: 'Error' }]
]
for (const [error, expected] of failures) t.same(failureOf(error), expected)

t.test('a transfer that is cancelled ends, and says so', async (t) => {
  const w = await world(t, async (_modelId, signal) => await new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => { reject(signal.reason as Error) })
  }))
  t.equal(await w.stager.cancel(ID), false, 'there is none')
  const job = w.stager.stage(ID)
  t.equal(await w.stager.cancel(ID), true)
  t.match(job, { state: 'cancelled', failure: { reason: 'cancelled' } })
  t.same(w.told, [`pending ${ID}`], 'no failure that somebody has to look at')
})
