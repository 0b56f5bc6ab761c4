import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../kernel/index.js'
import { ModelRoot } from '../files/root.js'
import { recordOf } from './files-kit.js'
import { deactivated, GIB, spaceRig } from './space-kit.js'
import { scratch } from './store-kit.js'

/** Creates another root, with models `o/NAME` of 3 bytes each. */
async function further (
  t: Parameters<typeof scratch>[0], role: 'beside' | 'cache', names: string
): Promise<ModelRoot> {
  const root = new ModelRoot({ root: scratch(t), clock: systemClock, role })
  await root.prepare()
  for (const modelId of names.split(' ').map((name) => `o/${name}`)) {
    const folder = await root.begin(modelId)
    writeFileSync(join(folder, 'm.gguf'), 'one')
    await root.publish(modelId, recordOf(modelId, { 'm.gguf': 'one' }))
  }
  return root
}

t.test('a purge takes what is staged, beside it and from the hub; a model counts once', async (t) => {
  const roots = { beside: await further(t, 'beside', 'a'), cache: await further(t, 'cache', 'a hub stuck') }
  const rig = spaceRig(t, (staged) => ({ roots: { staged, ...roots } }))
  rig.put('a', GIB, 9)
  rig.put('b', GIB, 1)
  rig.leases.use('o/b', 'runner')
  writeFileSync(join(roots.cache.root, 'o--stuck', 'mine.txt'), 'x')
  const { copies, ...told } = await rig.evictor.preview()
  t.same(copies.map(({ modelId, overBudget }) => [modelId, overBudget]).sort(), [
    ['o/a', false], ['o/a', false], ['o/a', true], ['o/b', false], ['o/hub', false], ['o/stuck', false]
  ], 'of the versions beside others none stays')
  const removed = ['o/a', 'o/hub', 'o/stuck']
  t.same(told, { removed, skippedInUse: ['o/b'], freedBytes: GIB + 12, error: null })
  t.same(await rig.evictor.purge(), told)
  t.same([roots.beside.copies.size, roots.cache.copies.size, rig.there()], [0, 0, 'b'])
  t.same(rig.evicted.map(({ role }) => role).sort(), ['beside', 'cache', 'cache', 'cache', 'staged'])
})

t.test('after a deactivation no version beside another stays, and the cache is left alone', async (t) => {
  const roots = { beside: await further(t, 'beside', 'a'), cache: await further(t, 'cache', 'hub') }
  const rig = spaceRig(t, (staged) => ({ roots: { staged, ...roots } }))
  rig.put('a', GIB, 9)
  rig.settings.cleanupOnDeactivate = false
  const release = rig.leases.use('o/a', 'runner')
  t.same(await deactivated(rig, 'o/b'), [])
  release()
  t.same(await deactivated(rig, 'o/a'), ['o/a'], 'the one beside')
  t.same([roots.beside.copies.size, roots.cache.copies.size, rig.there()], [0, 1, 'a'])
  t.same((await rig.evictor.storage()).copies.map(({ modelId }) => modelId), ['o/a'])
})
