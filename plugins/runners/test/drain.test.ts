import t from 'tap'
import { commandHandlers } from '../instances/commands.js'
import { Drains } from '../instances/shutdown.js'
import { bodyOf, leads, shardOf } from '../instances/shapes.js'
import type { Instance } from '../instances/sections.js'
import { endings, ledBy } from './endings-kit.js'
import { card, section, soloInstance } from './samples.js'

const T0 = Date.UTC(2026, 10, 22)
const HOUR = 3_600_000

interface Look { at: number, tasks?: number, until?: number, quietMs?: number, wall?: number }

/** Runs the checks in order (`at` and `until` in ms from the start); returns the result of each. */
function overAt (looks: readonly Look[]): boolean[] {
  const drains = new Drains()
  return looks.map(({ at, tasks = 0, until = 30_000, quietMs = 0, wall = at }) => {
    const draining = [{ instanceId: 'I', runnerId: 'R', until: T0 + until }]
    const found = drains.check({ draining, outstanding: () => tasks, quietMs, now: T0 + wall, mono: at })
    t.equal(drains.done('R'), found.length === 1)
    return found.length === 1
  })
}

const table: [string, Look[], boolean[]][] = [
  ['nobody served: at once', [{ at: 0 }], [true]],
  ['when its last task has ended', [{ at: 0, tasks: 2 }, { at: 9000, tasks: 1 }, { at: 9500 }],
    [false, false, true]],
  ['not before it was quiet for as long as requests are on their way',
    [{ at: 0, quietMs: 250 }, { at: 200, tasks: 1, quietMs: 250 }, { at: 400, quietMs: 250 },
      { at: 600, quietMs: 250 }, { at: 650, quietMs: 250 }], [false, false, false, false, true]],
  ['when the time is up', [{ at: 0, tasks: 1 }, { at: 29_999, tasks: 1 }, { at: 30_000, tasks: 1 }],
    [false, false, true]],
  ['a sooner end counts', [{ at: 0, tasks: 1 }, { at: 1000, tasks: 1, until: 5000 },
    { at: 4999, tasks: 1, until: 5000 }, { at: 5000, tasks: 1, until: 5000 }], [false, false, false, true]],
  ['a later one does not', [{ at: 0, tasks: 1 }, { at: 30_000, tasks: 1, until: 90_000 }], [false, true]],
  ['an end that has passed', [{ at: 0, tasks: 1, until: -HOUR }], [true]],
  ['a clock set back does not prolong it',
    [{ at: 0, tasks: 1 }, { at: 30_000, tasks: 1, wall: 30_000 - HOUR }], [false, true]],
  ['a clock far behind is not believed',
    [{ at: 0, tasks: 1, until: 9 * HOUR }, { at: HOUR, tasks: 1, until: 9 * HOUR }], [false, true]],
  ['a date that is none has passed', [{ at: 0, tasks: 1, until: NaN }], [true]],
  ['what is over stays over', [{ at: 0 }, { at: 250, tasks: 1 }], [true, true]]
]
for (const [name, looks, expected] of table) {
  t.test(`a drain is over: ${name}`, async (t) => { t.strictSame(overAt(looks), expected) })
}

t.test('a runner that is not draining any more is forgotten', async (t) => {
  const drains = new Drains()
  const rest = { outstanding: () => 0, quietMs: 0, now: T0, mono: 0 }
  drains.check({ draining: [{ instanceId: 'I', runnerId: 'R', until: T0 + 1 }], ...rest })
  t.ok(drains.done('R'))
  drains.check({ draining: [], ...rest })
  t.notOk(drains.done('R'))
})

t.test('stop first, then the master is asked until it has removed it; told once', async (t) => {
  const did: string[] = []
  let master = false
  const node = endings({
    warned: () => { did.push('warned') },
    reconcile: async () => { did.push(`stop ${node.endings.done('R')}`) },
    remove: async (id) => {
      did.push(`remove ${id}`)
      if (!master) throw new Error('no master')
      node.led.length = 0
    }
  })
  const { clock, led } = node
  led.push(ledBy('I', 'R', { drainUntil: new Date(clock.now() + 1000).toISOString() }))
  node.outstanding = 1
  node.endings.taskEnded('R')
  node.changed()
  t.strictSame(did, [])
  await clock.advance(900)
  t.strictSame(did, [], 'it serves')
  node.outstanding = 0
  node.endings.taskEnded('R')
  await clock.advance(1)
  t.strictSame(did.splice(0), ['stop true', 'remove I', 'warned'])
  await clock.advance(250)
  t.strictSame(did.splice(0), ['stop true', 'remove I'])
  master = true
  await clock.advance(250)
  t.strictSame(did.splice(0), ['stop true', 'remove I'])
  await clock.advance(10_000)
  t.strictSame(did, [])
  led.push(ledBy('J', 'Q', { drainUntil: new Date(clock.now() + 1000).toISOString() }))
  node.outstanding = 1
  node.changed()
  node.endings.close()
  await clock.advance(10_000)
  t.strictSame(did, [], 'closed')
})

t.test('the master lets an instance drain', async (t) => {
  const held = section()
  const live = new Set(['n1'])
  let now = T0
  const { create, drain, remove } = commandHandlers({
    section: held,
    now: () => now,
    live: (id) => live.has(id),
    digest: () => undefined,
    check () {}
  })
  const on = (instanceId: string, nodeId: string): Instance =>
    soloInstance({ instanceId, runnerId: `r ${instanceId}`, nodeId }, card('m'))
  const ends = (id: string): string | undefined =>
    held.get(id) === undefined ? undefined : bodyOf(held.get(id)!).drainUntil
  create({ instance: on('a', 'n1') })
  create({ instance: on('gone', 'n2') })
  t.strictSame(drain({ instanceId: 'unknown', seconds: 30 }), { found: false })
  t.strictSame(drain({ instanceId: 'a', seconds: 30 }), { found: true })
  t.equal(ends('a'), '2026-11-22T00:00:30.000Z')
  now += 1000
  t.strictSame(drain({ instanceId: 'a', seconds: 30 }), { found: true })
  t.equal(ends('a'), '2026-11-22T00:00:30.000Z', 'never prolonged')
  drain({ instanceId: 'a', seconds: 5 })
  t.equal(ends('a'), '2026-11-22T00:00:06.000Z', 'a sooner end counts')
  t.strictSame(create({ instance: on('a2', 'n1') }), { instanceId: 'a2' }, 'it is no place of a new one')
  t.strictSame(create({ instance: on('a3', 'n1') }), { instanceId: 'a2' })
  t.strictSame(drain({ instanceId: 'gone', seconds: 30 }), { found: true })
  t.equal(held.get('gone'), undefined, 'its node is gone: at once')
  t.strictSame(drain({ instanceId: 'a2', seconds: 0 }), { found: true })
  t.equal(held.get('a2'), undefined, 'no time: at once')
  t.strictSame(remove({ instanceId: 'a' }), { removed: true }, 'the end of a drain')
})

t.test('the node of the first rank ends an instance', async (t) => {
  const one = soloInstance({ instanceId: 'I', runnerId: 'R', nodeId: 'n1' }, card('m'))
  const { PipelineShardMetadata: shard } =
    bodyOf(one).shardAssignments.runnerToShard['R'] as { PipelineShardMetadata: object }
  const two = structuredClone(one)
  bodyOf(two).shardAssignments.nodeToRunner['n2'] = 'Q'
  const second = { ...shard, deviceRank: 1 } as never
  bodyOf(two).shardAssignments.runnerToShard['Q'] = { TensorShardMetadata: second }
  t.strictSame(['n1', 'n2', 'n3'].map((id) => leads(two, id)), [true, false, false])
  t.strictSame([shardOf(two, 'n1'), shardOf(two, 'n2'), shardOf(two, 'n3')], [shard, second, null])
  delete bodyOf(two).shardAssignments.runnerToShard['R']
  t.strictSame([leads(two, 'n1'), shardOf(two, 'n1')], [false, null], 'a runner without a part')
  bodyOf(two).shardAssignments.runnerToShard = {}
  t.strictSame(['n1', 'n2'].map((id) => leads(two, id)), [true, false], 'no parts at all: one of them')
})
