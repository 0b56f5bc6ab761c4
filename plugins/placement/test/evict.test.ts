import t from 'tap'
import { bytesOf, evictions, without } from '../planner/evict.js'
import { canPlan } from '../planner/solve.js'
import { usableOf } from '../planner/memory.js'
import type { ClusterView, InstanceMemory } from '../planner/types.js'
import { GIB, node, request, seeded, someCase, view } from './planner-kit.js'

const loaded = (instanceId: string, gib: number, over: Partial<InstanceMemory> = {}): InstanceMemory => ({
  instanceId, modelId: `acme/${instanceId}`, onDemand: true, idleSeconds: 60,
  memory: [{ nodeId: 'n', backend: 'cpu', bytes: gib * GIB }], ...over
})
const on = (nodeId: string, gib: number): Pick<InstanceMemory, 'memory'> =>
  ({ memory: [{ nodeId, backend: 'cpu', bytes: gib * GIB }] })

/** A model that needs 13 GiB; by default one node with a free GiB. */
const chosen = (instances: InstanceMemory[], nodes = [node('n', 1)], over: Partial<ClusterView> = {},
  minimum?: (modelId: string) => number) =>
  evictions(request({ minNodes: 1 }), view(nodes, { edges: [], ...over, instances }), minimum)
    ?.map(({ instanceId }) => instanceId) ?? null

const table: [string, string[] | null, string[] | null][] = [
  ['nothing to unload', chosen([]), null],
  ['one that must stay', chosen([loaded('a', 20, { idleSeconds: undefined })]), null],
  ['one in use is waited for', chosen([loaded('a', 20, { idleSeconds: null })]), []],
  ['one that ends is waited for', chosen([loaded('a', 20, { leaving: true }), loaded('b', 20)]), []],
  ['one that ends later: an idle one', chosen([loaded('a', 20, { leaving: true, idleSeconds: null }),
    loaded('b', 20)]), ['b']],
  ['one that ends later, another at once', chosen([loaded('a', 20, { leaving: true, idleSeconds: null }),
    loaded('b', 20, { leaving: true }), loaded('c', 20)]), []],
  ['one that ends later, and others are not enough', chosen([
    loaded('a', 20, { leaving: true, idleSeconds: null }), loaded('b', 5)]), []],
  ['one that ends later is not in the count of a policy', chosen([loaded('b', 20, { modelId: 'acme/kept' }),
    loaded('c', 20, { modelId: 'acme/kept', leaving: true, idleSeconds: null })], undefined, {},
  (modelId) => modelId === 'acme/kept' ? 1 : 0), []],
  ['one that loads is waited for', chosen([loaded('a', 0, { idleSeconds: null, memory: [] })],
    [node('n', 14)],
    { reservations: [{ nodeId: 'n', backend: 'cpu', bytes: 13 * GIB, instanceId: 'a' }] }), []],
  ['too small', chosen([loaded('a', 5)]), null],
  ['the idle one', chosen([loaded('a', 20), loaded('b', 20, { idleSeconds: null })]), ['a']],
  ['longest without a request', chosen([loaded('a', 20), loaded('b', 20, { idleSeconds: 90 })]), ['b']],
  ['cheapest to load again', chosen([loaded('a', 30), loaded('b', 20)]), ['b']],
  ['twice the size, three times as idle', chosen([loaded('a', 20), loaded('b', 40, { idleSeconds: 180 })]),
    ['b']],
  ['those that requests placed first', chosen([loaded('a', 20, { onDemand: false, idleSeconds: 9e5 }),
    loaded('b', 20, { idleSeconds: 1 })]), ['b']],
  ['as few as needed', chosen([loaded('a', 2, { idleSeconds: 999 }), loaded('b', 8), loaded('c', 9)]),
    ['b', 'c']],
  ['on the node of the plan only', chosen([
    loaded('a', 2, { idleSeconds: 999, ...on('m', 2) }), loaded('b', 20), loaded('c', 30, on('m', 30))
  ], [node('n', 1), node('m', 1)]), ['b']]
]
const keep = (modelId: string): number => modelId === 'acme/kept' ? 1 : 0
const kept = loaded('b', 20, { modelId: 'acme/kept', idleSeconds: 90 })
const more = loaded('c', 20, { modelId: 'acme/kept', idleSeconds: 91 })
table.push(
  ['the only one that a policy keeps', chosen([kept], undefined, {}, keep), null],
  ['another one than that', chosen([kept, loaded('a', 20)], undefined, {}, keep), ['a']],
  ['one of two of which the policy keeps one', chosen([kept, more], undefined, {}, keep), ['c']],
  ['one in use is kept', chosen([kept, { ...more, idleSeconds: null }], undefined, {}, keep), ['b']]
)
for (const [name, got, wanted] of table) t.test(name, async (t) => { t.strictSame(got, wanted) })

t.test('what is unloaded is enough, idle, and none too many', async (t) => {
  const random = seeded(7)
  let some = 0
  for (let n = 0; n < 400; n++) {
    const { request: asked, view: base } = someCase(random)
    const instances = Array.from({ length: 5 }, (_, i): InstanceMemory => loaded(`i${i}`, 0, {
      idleSeconds: [undefined, null, 5, 50, 500][Math.floor(random() * 5)],
      memory: base.nodes.slice(0, 2).map(({ nodeId }) =>
        ({ nodeId, backend: 'cpu', bytes: random() * 9 * GIB }))
    }))
    const full = { ...base, instances }
    if (canPlan(asked, full)) continue
    const gone = evictions(asked, full) ?? []
    if (gone.length === 0) continue
    some++
    t.ok(gone.every(({ idleSeconds }) => idleSeconds != null) && canPlan(asked, without(full, gone)))
    for (const one of gone) {
      t.notOk(canPlan(asked, without(full, gone.filter((other) => other !== one))), `${n}: ${bytesOf(one)}`)
    }
  }
  t.ok(some > 5, `${some} cases`)
})

t.test('the RAM that an operator allows to models', async (t) => {
  const usable = (
    ramBudget: number | undefined, instances: InstanceMemory[], over: Partial<ClusterView> = {}
  ): number =>
    usableOf(node('n', 20, { ramBudget: ramBudget && ramBudget * GIB }) as never, 'ram',
      view([], { instances, ...over })).usableBytes / GIB
  const five = on('n', 5).memory
  t.strictSame([
    usable(undefined, [loaded('a', 6)]), usable(8, []), usable(8, [loaded('a', 6)]),
    usable(30, [loaded('a', 6)]),
    usable(8, [loaded('a', 6)], { releasing: five }), usable(8, [loaded('a', 2)], { reservations: five }),
    usable(8, [loaded('a', 9)])
  ], [20, 8, 2, 20, 2, 1, 0])
})
