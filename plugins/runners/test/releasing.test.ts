import t from 'tap'
import { Removals } from '../instances/shutdown.js'
import { bodyOf } from '../instances/shapes.js'
import type { Instance } from '../instances/sections.js'
import { card, soloInstance } from './samples.js'

const on = (instanceId: string): Instance =>
  soloInstance({ instanceId, runnerId: `r${instanceId}`, nodeId: `n${instanceId}` }, card('m'))

/** Ids and nodes of the removed instances that still hold memory. */
const seen = (removals: Removals, mono: number, ends: (nodeId: string, runnerId: string) => boolean) =>
  removals.view(mono, ends)
    .map(({ instance, nodeIds }) => `${bodyOf(instance).instanceId} ${nodeIds.join()}`)
const all = (): boolean => true

t.test('what was removed is releasing for as long as its runner is there', async (t) => {
  const removals = new Removals()
  removals.update([on('a'), on('b'), on('c')], 0)
  t.strictSame(seen(removals, 0, all), [], 'nothing was removed')
  removals.update([on('c')], 1000)
  t.strictSame(seen(removals, 1000, all), ['a na', 'b nb'])
  t.strictSame(seen(removals, 1000, (nodeId, runnerId) => nodeId === 'nb' && runnerId === 'rb'), ['b nb'])
  removals.update([on('c'), on('a')], 2000)
  t.strictSame(seen(removals, 2000, all), ['b nb'], 'a is there again')
  t.strictSame(seen(removals, 60_999, all), ['b nb'])
  t.strictSame(seen(removals, 61_000, all), [], 'a minute is the longest')
  t.strictSame(seen(removals, 1000, all), [], 'and it is forgotten')
})

t.test('readings are behind for a moment', async (t) => {
  const removals = new Removals()
  removals.update([on('a')], 0)
  t.notOk(removals.settling(0, 'n'))
  removals.update([], 1000)
  t.ok(removals.settling(1000, 'n'))
  t.ok(removals.settling(3999, 'n'))
  t.notOk(removals.settling(1000, 'na'), 'those of this node are not')
  t.notOk(removals.settling(4000, 'n'))
})

t.test('an instance over several nodes, some of which are through', async (t) => {
  const two = on('a')
  bodyOf(two).shardAssignments.nodeToRunner['nz'] = 'rz'
  const removals = new Removals()
  removals.update([two], 0)
  removals.update([], 0)
  t.strictSame(seen(removals, 0, all), ['a na,nz'])
  t.strictSame(seen(removals, 0, (nodeId) => nodeId === 'nz'), ['a nz'])
})

t.test('the newest 64 are watched', async (t) => {
  const removals = new Removals()
  const many = Array.from({ length: 70 }, (_, n) => on(`${n}`))
  removals.update(many, 0)
  many.forEach((_, n) => { removals.update(many.slice(n + 1), n) })
  const left = seen(removals, 100, all)
  t.equal(left.length, 64)
  t.strictSame([left[0], left[63]], ['6 n6', '69 n69'])
})
