import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../kernel/clock.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { Exchange } from '../exchange.js'
import { manifestDigest, ModelRoot } from '../files/index.js'
import { LocalCopies } from '../local-copies.js'
import { Room } from '../room.js'
import { NoSafeFit } from '../space/index.js'
import { StageJob } from '../stage-job.js'
import { failureOf, Stager } from '../stager.js'
import { StoreAccess } from '../store-access.js'
import { errorOf, memorySection, Network, scratch, soon, until } from './plane-kit.js'
import { startHub } from './hub-kit.js'
import { clientOf, gate, memoryLog } from './store-kit.js'
import { contentOf, liveClock, manifestOf, wrongFiles } from './transfer-kit.js'
import { card } from '../../runners/test/samples.js'
import type { Bundle, ModelCard } from '../../../kernel/index.js'
import type { Found } from '../finder.js'
import type { HubClient } from '../hub/index.js'
import type { ShelfItem } from '../shelf.js'
import type { Keeper } from '../space/index.js'
import type { StagerParts } from '../stager.js'
import type { StoreEntryFact } from '../shared.js'
import type { Test } from './plane-kit.js'
import type { Content } from './transfer-kit.js'

const ID = 'acme/model'
const CONTENT = contentOf({ 'm.gguf': 100_000, 'a/b.txt': 10, 'empty': 0 })
const OTHER = contentOf({ 'm.gguf': 50_000 }, 7)

interface World {
  stager: Stager
  staging: ModelRoot
  cache: ModelRoot
  local: LocalCopies
  /** What happened, in order. */
  told: string[]
  failures: Record<string, unknown>[]
  log: ReturnType<typeof memoryLog>
}

const bundle = { models: () => [] } as unknown as Bundle

/** A stager on real folders; `find` says where models are. */
async function world (
  t: Test, find: (modelId: string, signal: AbortSignal) => Found | Promise<Found>,
  more: Partial<StagerParts> = {}
): Promise<World> {
  const [staging, cache] = [scratch(t), scratch(t)].map((root) => new ModelRoot({ root, clock: systemClock }))
  await staging!.prepare()
  await cache!.prepare()
  const cluster = new Network().node('me')
  const access = new StoreAccess({
    cluster, storeHosts: memorySection('n-me'), storeModels: memorySection<StoreEntryFact>('n-me'),
    error: errorOf
  })
  const log = memoryLog()
  const exchange = new Exchange({ cluster, clock: liveClock, access, random: () => 0.5 })
  const local = new LocalCopies({ bundle, staging: staging!, cache: cache!, log, onChange: () => {} })
  const told: string[] = []
  const failures: Record<string, unknown>[] = []
  const stager = new Stager({
    staging: () => staging!, cache: () => cache!, local, keeper: null, room: new Room(0), exchange, hub: null,
    find: async (modelId, signal) => await find(modelId, signal),
    derive: async (_folder, { modelId }) => card(modelId),
    clock: liveClock, random: () => 0.01, log,
    onChange: () => {},
    onPending: ({ modelId }) => { told.push(`pending ${modelId}`) },
    onCompleted: ({ modelId }) => { told.push(`completed ${modelId}`) },
    onFailed: ({ modelId }, { reason, message }) => {
      told.push(`failed ${modelId}`)
      failures.push({ modelId, reason, message })
    },
    unusable: () => new Error('unusable'),
    inUse: () => false,
    ...more
  })
  t.teardown(() => { exchange.close() })
  return { stager, staging: staging!, cache: cache!, local, told, failures, log }
}

/** A model on a shelf. `bundled` ones are copied, others linked on the same disk. */
function item (t: Test, { content = CONTENT, modelId = ID, bundled = false,
  companions = [] as string[] } = {}): ShelfItem {
  const directory = scratch(t)
  for (const [path, bytes] of content as Content) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), bytes, { mode: 0o444 })
  }
  const manifest = { ...manifestOf(content), modelId }
  const about: ModelCard = card(modelId,
    { companions: companions.map((id) => ({ modelId: id, role: 'draft' })) })
  return {
    modelId, directory, manifest, digest: manifestDigest(manifest), card: about, source: 'file',
    downloadedAt: '', bundled
  }
}

const shelf = (one: ShelfItem): Found => ({ from: 'shelf', item: one })

t.test('a model of the own store on the same disk is linked', async (t) => {
  const one = item(t)
  const w = await world(t, () => shelf(one))
  const job = w.stager.stage(ID)
  t.equal(w.stager.stage(ID), job, 'a second wish joins the first')
  t.same(w.stager.active(), [ID])
  await job.ended
  t.match(job, { state: 'completed', failure: null,
    progress: { bytes: 100_010, totalBytes: 100_010, totalFiles: 3 } })
  t.same(w.told, [`pending ${ID}`, `completed ${ID}`])
  const folder = join(w.staging.root, 'acme--model')
  t.same(await wrongFiles(folder, CONTENT), [])
  t.equal(statSync(join(folder, 'm.gguf')).ino, statSync(join(one.directory, 'm.gguf')).ino)
  t.match(w.local.of('staged', ID), { digest: one.digest, directory: folder })
  t.same(w.stager.active(), [])
  t.same(readdirSync(join(w.staging.root, '.incoming')), [])
})

t.test('what is there already is complete at once; another version replaces it', async (t) => {
  let one = item(t)
  const w = await world(t, () => shelf(one))
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

t.test('what ships is copied chunk by chunk, in room that was asked for', async (t) => {
  const one = item(t, { bundled: true })
  const asked: unknown[] = []
  const keeper = { makeRoom: async (bytes: number,
    o: unknown) => { asked.push([bytes, o]); return { evicted: [] } } }
  const w = await world(t, () => shelf(one), { keeper: keeper as unknown as Keeper })
  await w.stager.stage(ID).ended
  t.same(w.failures, [])
  t.same(await wrongFiles(join(w.staging.root, 'acme--model'), CONTENT), [])
  t.same(asked[0], [100_010, { keep: [ID] }])
  t.equal(statSync(join(w.staging.root, 'acme--model', 'm.gguf')).nlink, 1)
})

t.test('what a broken off transfer left counts as there', async (t) => {
  const one = item(t, { bundled: true })
  const asked: number[] = []
  const keeper = { makeRoom: async (bytes: number) => { asked.push(bytes); return { evicted: [] } } }
  const w = await world(t, () => shelf(one), { keeper: keeper as unknown as Keeper })
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
  const keeper = {
    makeRoom: async () => {
      if (full) throw new NoSafeFit('too little', {} as never)
      return { evicted: [] }
    }
  }
  const w = await world(t, () => shelf(one), { keeper: keeper as unknown as Keeper })
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
  t.equal(again.state, 'completed')
})

t.test('a folder that cannot be used is the failure of what needs it', async (t) => {
  const w = await world(t, () => shelf(item(t)), { staging: () => null })
  await w.stager.stage(ID).ended
  t.match(w.failures, [{ modelId: ID, message: 'unusable' }])
  const why = errorOf('store_unreachable')
  const far = await world(t, () => ({ from: 'hub', commit: null, why }),
    { cache: () => null, hub: {} as HubClient })
  await far.stager.stage(ID).ended
  t.match(far.failures, [{ modelId: ID, message: 'unusable' }])
})

t.test('a failure to find is told with its reason', async (t) => {
  const w = await world(t, () => { throw errorOf('store_unreachable', 'gone') })
  await w.stager.stage(ID).ended
  t.match(w.failures, [{ reason: 'store_unreachable', message: 'gone' }])
  t.same(w.told, [`pending ${ID}`, `failed ${ID}`])
  w.stager.forget(ID)
  t.same(w.stager.jobs(), [])
})

t.test('what ships with this node is used in place: nobody is asked', async (t) => {
  const one = item(t)
  const shipped = { model: () => undefined, models: () =>
    [{ card: { ...one.card, files: [] }, directory: one.directory }] }
  const log = memoryLog()
  const local = new LocalCopies({
    bundle: shipped as unknown as Bundle, staging: null, cache: null, log, onChange: () => {}
  })
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
    if (id === ID) return shelf(main)
    if (broken) throw errorOf('model_not_found', 'no draft')
    return shelf(draft)
  })
  const job = w.stager.stage(ID)
  await job.ended
  t.equal(job.state, 'completed')
  t.ok(w.local.of('staged', 'acme/draft'))
  t.same(w.told.at(-1), `completed ${ID}`, 'it is ready when its companions are')
  broken = true
  await w.stager.stage(ID).ended
  t.match(w.failures.at(-1), { modelId: ID, reason: 'model_not_found',
    message: 'its companion acme/draft: no draft' })
})

t.test('models that are each other\'s companions end too', async (t) => {
  const a = item(t, { companions: ['acme/b'] })
  const b = item(t, { modelId: 'acme/b', content: OTHER, companions: [ID] })
  const w = await world(t, (id) => shelf(id === ID ? a : b))
  await soon(w.stager.stage(ID).ended)
  t.ok(w.local.of('staged', ID))
  t.ok(w.local.of('staged', 'acme/b'))
})

t.test('closing ends what runs, tells nobody of a failure, and keeps what came', async (t) => {
  const { opened, open } = gate()
  const one = item(t)
  const w = await world(t, async (_id, signal) => {
    await opened
    signal.throwIfAborted()
    return shelf(one)
  })
  const job = w.stager.stage(ID)
  const closed = w.stager.close()
  open()
  await soon(closed)
  t.match(job, { state: 'failed', failure: { message: 'the node stops' } })
  t.same(w.told, [`pending ${ID}`])
})

t.test('after closing nothing begins any more', async (t) => {
  const main = item(t, { companions: ['acme/draft'] })
  const { opened, open } = gate()
  const asked: string[] = []
  const w = await world(t, async (id) => {
    asked.push(id)
    await opened
    return shelf(main)
  })
  w.stager.stage(ID)
  const closed = w.stager.close()
  open()
  await soon(closed)
  t.same(asked, [ID], 'its companion is not begun')
})

t.test('no store can be reached: the hub, into the cache', async (t) => {
  const files = { 'config.json': '{}', 'm.gguf': CONTENT.get('m.gguf')! }
  const hub = await startHub({ models: { [ID]: { files } } })
  t.teardown(async () => { await hub.close() })
  const client = clientOf(hub)
  const why = errorOf('store_unreachable', 'gone')
  const found = (): Found => ({ from: 'hub', commit: hub.commit(ID), why })
  const w = await world(t, found, { hub: client })
  const job = w.stager.stage(ID)
  await job.ended
  t.same(w.failures, [])
  const copy = w.local.of('cache', ID)
  t.match(copy, { kind: 'cache', directory: join(w.cache.root, 'acme--model'),
    manifest: { revision: hub.commit(ID) } })
  const [published] = await w.cache.list()
  t.equal(published?.record?.source, `hub:${hub.url}@${hub.commit(ID)}`, 'as the store writes it')
  t.same(readdirSync(w.staging.root), ['.incoming', '.trash'], 'not into the staging folder')
  hub.reset()
  await w.stager.stage(ID).ended
  t.equal(hub.fetches('m.gguf').length, 0, 'the same commit is not fetched again')
  t.ok(w.log.lines.some(([line]) => /asking the hub/.test(line)))

  const none = await world(t, found)
  await none.stager.stage(ID).ended
  t.match(none.failures, [{ reason: 'store_unreachable', message: 'gone' }],
    'without a hub that is the cause')
  const tight = await world(t, found, { hub: client, room: new Room(2 ** 60) })
  hub.reset()
  await tight.stager.stage(ID).ended
  t.match(tight.failures, [{ reason: 'no_safe_fit', message: /must stay free/ }])
  t.equal(hub.fetches('m.gguf').length, 0)
  const lan: Found = { ...item(t), from: 'lan' }
  let asked = 0
  const left = await world(t, () => asked++ === 0 ? lan : found(), { hub: client })
  await left.stager.stage(ID).ended
  t.same([left.failures, left.local.of('cache', ID)?.kind], [[], 'cache'], 'all who had it are gone')
})

t.test('with a staged copy of the content the store had, no hub is asked', async (t) => {
  const hub = await startHub({ models: { [ID]: { files: { 'm.gguf': CONTENT.get('m.gguf')! } } } })
  t.teardown(async () => { await hub.close() })
  let found: Found = shelf(item(t, { content: new Map([['m.gguf', CONTENT.get('m.gguf')!]]) }))
  const w = await world(t, () => found, { hub: clientOf(hub) })
  await w.stager.stage(ID).ended
  found = { from: 'hub', commit: null, why: errorOf('store_unreachable', 'gone') }
  const job = w.stager.stage(ID)
  await job.ended
  t.equal(job.state, 'completed')
  t.equal(hub.fetches('m.gguf').length, 0, 'the copy that is here is good enough while no store can be asked')
})

t.test('at most so many ended jobs are remembered', async (t) => {
  const w = await world(t, () => { throw new Error('no') })
  for (let i = 0; i < 100; i++) await w.stager.stage(`acme/m${i}`).ended
  t.equal(w.stager.jobs().length, 64)
  t.equal(w.stager.jobs().at(-1)?.modelId, 'acme/m99')
})

t.test('room: one transfer at a time on a disk; an abort leaves the queue', async (t) => {
  const room = new Room(0)
  const folder = scratch(t)
  const { opened, open } = gate()
  const order: string[] = []
  const first = room.alone(folder, 'a', undefined, async () => { order.push('a'); await opened })
  await until(() => order.length === 1)
  const abort = new AbortController()
  const second = room.alone(folder, 'b', abort.signal, async () => { order.push('b') })
  const third = room.alone(join(folder, 'deeper'), 'c', undefined, async () => { order.push('c') })
  second.catch(() => {})
  await new Promise((resolve) => { setImmediate(resolve) })
  abort.abort(new Error('enough'))
  await t.rejects(second, { message: 'enough' })
  open()
  await Promise.all([first, third])
  t.same(order, ['a', 'c'])
  await t.rejects(new Room(2 ** 60).check(folder, 1), { reason: 'no_safe_fit', message: /GiB/ })
  await room.check(folder, 1)
  await new Room(2 ** 60).check(folder, 0)
  writeFileSync(join(folder, 'f'), Buffer.alloc(10_000, 1))
  t.equal(await room.kept(folder, null), 10_000)
  t.equal(await room.kept(join(folder, 'none'), null), 0)
  const digest = 'a'.repeat(64)
  t.equal(await room.kept(folder, digest), 0, 'without a journal nobody says what they are of')
  writeFileSync(join(folder, '.svc-journal'), `svc-journal 1 ${digest}\n`)
  t.ok(await room.kept(folder, digest) >= 10_000)
  t.equal(await room.kept(folder, 'b'.repeat(64)), 0, 'bytes of another version may have to come again')
})

t.test('a job as /state shows it', (t) => {
  const clock = manualClock()
  const job = new StageJob(ID, clock)
  t.match(job.view('n'),
    { DownloadPending: { nodeId: 'n', modelId: ID, attemptId: job.attemptId, downloaded: 0 } })
  job.moved({ bytes: 0, totalBytes: 4000, files: 0, totalFiles: 2 })
  t.match(job.view('n'), { DownloadOngoing: { downloadProgress: { speed: 0, etaMs: null } } })
  t.end()
})

t.test('a job measures its rate', async (t) => {
  const clock = manualClock()
  const job = new StageJob(ID, clock)
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
