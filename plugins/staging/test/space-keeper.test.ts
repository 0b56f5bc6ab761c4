import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { deactivated, evictedBy, GIB, instead, MINUTE, spaceRig, until, type SpaceRig } from './space-kit.js'

const NO_FIT = { name: 'StoreError', reason: 'no_safe_fit' }
const GOING = { name: 'StoreError', reason: 'model_going' }

/** Adds models written as `name:GiB@minutes ago`. */
function put (rig: SpaceRig, line: string): void {
  for (const word of line.split(' ')) {
    const [name = '', size = '', minutes = ''] = word.split(/[:@]/)
    rig.put(name, Number(size) * GIB, Number(minutes))
  }
}

const ids = (names: string): string[] => names === '' ? [] : names.split(' ').map((name) => `o/${name}`)

interface Start {
  what: string
  models: string
  kept: string
  budgetGib?: number
  cleanup?: false
  used?: string
  leased?: string
}

/** `base` has the companion `draft`, whose companion is `sidecar`. */
const starts: Start[] = [
  { what: 'below the budget all stay', models: 'a:10@40 b:10@50 c:10@5000', kept: 'a b c' },
  { what: 'beyond the budget the oldest go', models: 'a:30@40 b:10@50 c:10@60 d:1@70', kept: 'a b' },
  { what: 'the one that crosses the budget stays', models: 'a:30@40 b:20@50 c:1@60', kept: 'a b' },
  { what: 'used within 30 minutes stays', models: 'a:30@1 b:30@20 c:30@29 d:1@31', kept: 'a b c' },
  { what: 'the edge of 30 minutes is inside', models: 'a:60@1 b:1@30 c:1@30.02', kept: 'a b' },
  { what: 'budget 0 keeps the window only', models: 'a:1@30 b:1@31', kept: 'a', budgetGib: 0 },
  { what: 'in use and its companions stay', models: 'a:1@40 base:1@50 draft:1@60 sidecar:1@70 d:1@45',
    kept: 'base draft sidecar', budgetGib: 0, used: 'base' },
  { what: 'a companion alone in use does not hold its base', models: 'base:1@50 draft:1@60 sidecar:1@70',
    kept: 'draft sidecar', budgetGib: 0, used: 'draft' },
  { what: 'a transfer under way holds model and companions', models: 'a:1@40 base:1@50 draft:1@60',
    kept: 'base draft', budgetGib: 0, leased: 'base' },
  { what: 'what is in use does not count into the budget', models: 'base:40@35 a:40@40 b:1@50',
    kept: 'a base', used: 'base' },
  { what: 'cleanup off: nothing goes', models: 'a:60@40 b:60@5000',
    kept: 'a b', budgetGib: 0, cleanup: false }
]

t.test('the pass at start', async (t) => {
  for (const { what, models, kept, budgetGib = 40, cleanup = true, used = '', leased = '' } of starts) {
    const rig = spaceRig(t)
    put(rig, models)
    rig.companions.set('o/base', ['o/draft']).set('o/draft', ['o/sidecar'])
    rig.settings.keepRecentBytes = budgetGib * GIB
    rig.settings.cleanupOnDeactivate = cleanup
    const releases = ids(used).map((id) => rig.leases.use(id, 'instance'))
    for (const id of ids(leased)) rig.leased.add(id)
    const stop = rig.evictor.watch()
    await rig.evictor.startup()
    t.equal(rig.there(), kept, what)
    t.ok(rig.evicted.every(({ trigger }) => trigger === 'startup'), 'the trigger is told')
    t.same(readdirSync(join(rig.folder, '.trash')), [], 'nothing stays behind')
    stop()
    for (const release of releases) release()
  }
})

t.test('a last use in the future becomes now, once', async (t) => {
  const rig = spaceRig(t)
  put(rig, 'a:1@-600 b:1@-1 c:1@40')
  rig.settings.keepRecentBytes = 0
  rig.settings.cleanupOnDeactivate = false
  await rig.evictor.startup()
  t.equal(rig.there(), 'a b c')
  t.same(['a', 'b', 'c'].map(rig.ageOf), [0, 0, 40], 'also without cleanup')
  rig.settings.cleanupOnDeactivate = true
  await rig.clock.advance(30 * MINUTE)
  await rig.evictor.startup()
  t.equal(rig.there(), 'a b', 'a start within 30 minutes keeps them')
  await rig.clock.advance(1000)
  await rig.evictor.startup()
  t.equal(rig.there(), '', 'a later one does not')
})

t.test('a pass at start that fails is logged, and the uses are written down all the same', async (t) => {
  const rig = spaceRig(t, (root) => instead(root, {
    list: () => async () => await Promise.reject(new Error('disk gone'))
  }))
  put(rig, 'a:1@40')
  const stop = rig.evictor.watch()
  await rig.evictor.startup()
  t.match(rig.logged, [/^error the eviction pass at start failed/])
  rig.leases.use('o/a', 'runner')
  await until('the use is written down', () => rig.ageOf('a') === 0)
  stop()
})

t.test('uses are written down at use, every minute and at release, companions too', async (t) => {
  const touched: string[] = []
  const rig = spaceRig(t, (root) => instead(root, {
    touch: (touch) => async (id, nowMs) => {
      touched.push(id)
      await touch(id, nowMs)
    }
  }))
  put(rig, 'base:1@50 draft:1@60 idle:1@70')
  rig.companions.set('o/base', ['o/draft', 'o/missing'])
  const both = (age: number) => () => rig.ageOf('base') === age && rig.ageOf('draft') === age
  const stop = rig.evictor.watch()
  await rig.evictor.startup()
  const release = rig.leases.use('o/base', 'runner')
  await until('the use', both(0))
  await rig.clock.advance(59_000)
  t.ok(both(59 / 60)(), 'not before a minute')
  await rig.clock.advance(1000)
  await until('the first minute', both(0))
  await rig.clock.advance(5 * MINUTE)
  await until('the sixth minute', both(0))
  await rig.clock.advance(30_000)
  release()
  await until('the release', both(0))
  await rig.clock.advance(3 * MINUTE)
  t.ok(both(3)(), 'idle copies grow old')
  t.equal(rig.ageOf('idle'), 79.5, 'others are left alone')
  const again = rig.leases.use('o/base', 'runner')
  await until('the second use', both(0))
  stop()
  touched.length = 0
  await rig.clock.advance(2 * MINUTE)
  again()
  rig.leases.use('o/base', 'runner')
  t.same([touched, both(2)()], [[], true], 'nothing after the stop')
  const faults = rig.logged.filter((line) => !line.startsWith('info'))
  t.same(faults, [], 'a companion that is not staged is no fault')
})

t.test('the pass after a deactivation', async (t) => {
  const rig = spaceRig(t)
  put(rig, 'a:30@5000 b:30@2 c:30@3 d:1@4')
  t.same(await deactivated(rig, 'o/a'), ['o/d', 'o/c'], 'the deactivated one is the newest')
  t.same([rig.there(), rig.ageOf('a')], ['a b', 0])
  t.same(rig.evicted.map(({ modelId, freedBytes, trigger }) => [modelId, freedBytes / GIB, trigger]),
    [['o/d', 1, 'deactivation'], ['o/c', 30, 'deactivation']])
  rig.settings.cleanupOnDeactivate = false
  rig.settings.keepRecentBytes = 0
  t.same([await deactivated(rig, 'o/a'), rig.there()], [[], 'a b'], 'cleanup off')
  rig.settings.cleanupOnDeactivate = true
  const release = rig.leases.use('o/a', 'another instance')
  t.same([await deactivated(rig, 'o/a'), rig.there()], [['o/b'], 'a'],
    'another instance still uses it')
  release()
  t.same([await deactivated(rig, 'o/a'), rig.there()], [['o/a'], ''], 'budget 0 is strict')
  t.same(await deactivated(rig, 'o/none'), [], 'a model that is not staged')
  put(rig, 'b:30@5 z:30@-60')
  rig.settings.keepRecentBytes = 30 * GIB
  t.same(await deactivated(rig, 'o/b'), ['o/z'], 'a time in the future is not newer than now')
})

t.test('room for a transfer', async (t) => {
  const rig = spaceRig(t)
  put(rig, 'a:5@1 b:5@2 c:5@3 linked:5@90 base:5@80 draft:5@70 busy:5@60')
  rig.hardLink('linked')
  rig.companions.set('o/base', ['o/draft'])
  rig.leased.add('o/base')
  rig.leases.use('o/busy', 'runner')
  const room = async (gib: number, free: number, keep = 'o/new'): Promise<string[]> => {
    rig.volume.freeBytes = free * GIB
    return await evictedBy(rig, async () => { await rig.evictor.makeRoom(gib * GIB, keep) })
  }
  t.same(await room(5, 15), [], 'fits as it is')
  await t.rejects(room(20, 14), {
    ...NO_FIT, message: /gives back 15\.00 GiB, so 1\.00 GiB are missing/
  })
  t.equal(rig.there(), 'a b base busy c draft linked', 'what would not be enough is left alone')
  rig.settings.cleanupOnDeactivate = false
  t.same(await room(5, 14, 'o/c'), ['o/b'], 'oldest first, as many as needed, also with cleanup off')
  t.same(await room(10, 10), ['o/c', 'o/a'])
  t.equal(rig.there(), 'base busy draft linked', 'used, leased, companions and hard links stay')
  t.ok(rig.evicted.every(({ trigger, freedBytes }) => trigger === 'capacity' && freedBytes === 5 * GIB))
  await t.rejects(room(1, 10), NO_FIT)
})

t.test('a transfer that adds nothing does not even look', async (t) => {
  const rig = spaceRig(t, () => ({ volume: async () => await Promise.reject(new Error('not asked')) }))
  await rig.evictor.makeRoom(0, 'o/new')
  await t.rejects(rig.evictor.makeRoom(1, 'o/new'), { message: 'not asked' })
})

t.test('room that is only asked for evicts nothing', async (t) => {
  const rig = spaceRig(t)
  put(rig, 'a:2@10 b:1@20')
  rig.volume.freeBytes = 10 * GIB
  await rig.evictor.requireRoom(3 * GIB, 'o/new')
  await t.rejects(rig.evictor.requireRoom(3 * GIB + 1, 'o/new'), NO_FIT)
  await t.rejects(rig.evictor.requireRoom(2 * GIB, 'o/a'), NO_FIT, 'what is kept gives none')
  t.equal(rig.there(), 'a b')
})

t.test('what refuses to go is left, and others make the room', async (t) => {
  const rig = spaceRig(t, (root) => instead(root, {
    remove: (remove) => async (id) => {
      if (id === 'o/stuck') throw new Error('EBUSY: o--stuck')
      return await remove(id)
    }
  }))
  put(rig, 'a:5@1 b:5@2 stuck:5@90')
  rig.volume.freeBytes = 10 * GIB
  t.same(await evictedBy(rig, async () => { await rig.evictor.makeRoom(4 * GIB, 'o/new') }), ['o/b'])
  t.match(rig.logged, [/^warn an idle copy could not be removed o\/stuck/, /^info/])
  rig.settings.keepRecentBytes = 0
  t.same(await deactivated(rig, 'o/a'), ['o/a'])
  put(rig, 'a:5@1')
  t.same(await rig.evictor.purge(), {
    removed: ['o/a'], skippedInUse: [], freedBytes: 5 * GIB, error: 'o/stuck: EBUSY: o--stuck'
  })
  t.equal(rig.there(), 'stuck')
})

t.test('the purge', async (t) => {
  const rig = spaceRig(t)
  put(rig, 'a:1@0 b:2@1 base:1@1 draft:1@1 moving:1@1')
  rig.settings.cleanupOnDeactivate = false
  rig.companions.set('o/base', ['o/draft'])
  const release = rig.leases.use('o/base', 'runner')
  rig.leased.add('o/moving').add('o/arriving')
  const none = { removed: [], skippedInUse: [], freedBytes: 0, error: null }
  const skips = (id: string): object => ({ ...none, skippedInUse: [id] })
  for (const id of ['o/none', '../../x', 'o--a', '', '.trash', 'o/a/../b']) {
    t.same(await rig.evictor.purge(id), none, `no model: ${id}`)
  }
  t.same(await rig.evictor.purge('o/draft'), skips('o/draft'), 'companion of one in use')
  t.same(await rig.evictor.purge('o/moving'), skips('o/moving'), 'a transfer holds it')
  t.same(await rig.evictor.purge('o/arriving'), skips('o/arriving'), 'its first transfer')
  t.same(await rig.evictor.purge('o/a', 'store_delete'), { ...none, removed: ['o/a'], freedBytes: GIB })
  t.equal(rig.there(), 'b base draft moving')
  t.same(await rig.evictor.purge(), {
    removed: ['o/b'],
    skippedInUse: ['o/arriving', 'o/base', 'o/draft', 'o/moving'],
    freedBytes: 2 * GIB,
    error: null
  })
  t.same(rig.evicted.map(({ trigger }) => trigger), ['store_delete', 'purge'])
  release()
  rig.leased.clear()
  t.same((await rig.evictor.purge()).removed, ['o/base', 'o/draft', 'o/moving'])
  t.equal(rig.there(), '')
  t.same(await rig.evictor.purge(), none)
})

t.test('a transfer that begins while a purge looks at the disk keeps its folder', async (t) => {
  const discarded: string[] = []
  const leased = new Set<string>()
  const { evictor } = spaceRig(t, (root) => ({
    active: () => leased,
    roots: {
      staged: {
        ...instead(root, {}).roots!.staged,
        pending: async () => {
          leased.add('o/late')
          return [{ modelId: 'o/late', directory: '', sizeBytes: 1, mtimeMs: 0 }]
        },
        discard: async (modelId) => { discarded.push(modelId) }
      }
    }
  }))
  t.same(await evictor.purge(), { removed: [], skippedInUse: ['o/late'], freedBytes: 0, error: null })
  t.same(discarded, [])
})

t.test('the preview of a purge says what the purge then does, and removes nothing', async (t) => {
  const rig = spaceRig(t)
  put(rig, 'a:1@5 b:2@1 old:3@90 base:1@1 draft:1@2 moving:1@1')
  rig.settings.keepRecentBytes = 2 * GIB
  rig.companions.set('o/base', ['o/draft'])
  rig.leases.use('o/base', 'runner')
  rig.leased.add('o/moving').add('o/arriving')
  const { copies, ...told } = await rig.evictor.preview()
  t.equal(rig.there(), 'a b base draft moving old')
  t.same(copies.map(({ modelId, sizeBytes, freeableBytes, inUse, overBudget }) =>
    [modelId, sizeBytes / GIB, freeableBytes / GIB, inUse, overBudget]), [
    ['o/old', 3, 3, false, true], ['o/a', 1, 1, false, true], ['o/draft', 1, 1, true, false],
    ['o/moving', 1, 1, true, false], ['o/base', 1, 1, true, false], ['o/b', 2, 2, false, false]
  ], 'oldest use first')
  t.ok(copies.every(({ lastUsedMs }) => lastUsedMs > 0))
  const one = await rig.evictor.preview('o/a')
  t.match(one, { removed: ['o/a'], skippedInUse: [], freedBytes: GIB, copies: [{ modelId: 'o/a' }] })
  t.match(await rig.evictor.preview('o/arriving'), { removed: [], skippedInUse: ['o/arriving'], copies: [] })
  rig.settings.cleanupOnDeactivate = false
  t.notOk((await rig.evictor.preview()).copies.some(({ overBudget }) => overBudget), 'no such pass')
  t.same(await rig.evictor.purge(), told)
  t.same((await rig.evictor.preview()).removed, [])
})

t.test('a use and a removal of the same model exclude each other', async (t) => {
  let open = (): void => {}
  const gate = new Promise<void>((resolve) => { open = resolve })
  const going: string[] = []
  const rig = spaceRig(t, (root) => instead(root, {
    remove: (remove) => async (id) => {
      going.push(id)
      await gate
      return await remove(id)
    }
  }))
  put(rig, 'draft:1@9 later:1@1')
  rig.companions.set('o/base', ['o/draft'])
  rig.volume.freeBytes = 0
  rig.settings.headroomBytes = 0
  const room = rig.evictor.makeRoom(2 * GIB, 'o/new')
  const purge = rig.evictor.purge()
  await until('the removal begins', () => going.length > 0)
  t.throws(() => rig.leases.use('o/draft', 'runner'), GOING)
  t.throws(() => rig.leases.use('o/base', 'runner'), GOING, 'its companion goes')
  const release = rig.leases.use('o/later', 'runner')
  open()
  await t.rejects(room, NO_FIT, 'the second copy is in use by now')
  t.same((await purge).skippedInUse, ['o/later'])
  t.same([going, rig.there()], [['o/draft'], 'later'], 'one pass at a time, and the used one stays')
  rig.leases.use('o/base', 'runner')
  release()
})

t.test('the purge of one model waits for no pass over all of them', async (t) => {
  let open = (): void => {}
  const gate = new Promise<void>((resolve) => { open = resolve })
  let listed = 0
  const rig = spaceRig(t, (root) => instead(root, {
    list: (list) => async () => {
      listed++
      await gate
      return await list()
    }
  }))
  put(rig, 'a:1@9 b:1@1')
  const room = rig.evictor.makeRoom(GIB, 'o/new')
  await until('the pass looks at the disk', () => listed === 1)
  t.match(await rig.evictor.purge('o/a'), { removed: ['o/a'], error: null })
  t.equal(listed, 1, 'and it does not look at the others')
  open()
  await room
  t.equal(rig.there(), 'b')
})

t.test('the breakdown', async (t) => {
  const rig = spaceRig(t)
  t.same(await rig.evictor.storage(), { copies: [], totalBytes: 0 })
  put(rig, 'a:1@5 base:2@9 draft:0.5@1 b:1@-5')
  rig.companions.set('o/base', ['o/draft'])
  rig.leases.use('o/base', 'runner')
  const { copies, totalBytes } = await rig.evictor.storage()
  t.equal(totalBytes, 4.5 * GIB)
  t.same(copies.map(({ modelId, sizeBytes, inUse }) => [modelId, sizeBytes / GIB, inUse]),
    [['o/b', 1, false], ['o/draft', 0.5, true], ['o/a', 1, false], ['o/base', 2, true]])
})
