import fc from 'fast-check'
import { FAULT_KINDS, HEALED, type Fault, type FaultKind, type Plan, type SimMode } from './plan.js'
import type { World } from './world.js'

const APPLY: { readonly [K in FaultKind]: (world: World, fault: Fault) => void } = {
  crash: (world, { a }) => { world.crash(world.node(a)) },
  crashMaster: (world) => { const master = world.master(); if (master !== undefined) world.crash(master) },
  start: (world, { a }) => { world.start(world.node(a)) },
  pause: (world, { a }) => { world.pause(world.node(a)) },
  pauseMaster: (world) => { const master = world.master(); if (master !== undefined) world.pause(master) },
  resume: (world, { a }) => { world.node(a).resume() },
  cut: split,
  link: (world, fault) => { between(world, fault, false) },
  oneWay: (world, fault) => { between(world, { ...fault, hard: false }, true) },
  heal: (world) => { world.heal() },
  diskSlow: (world, { a }) => { world.node(a).diskFault = 'slow' },
  diskFailing: (world, { a }) => { world.node(a).diskFault = 'failing' },
  diskGood: (world, { a }) => { world.node(a).diskFault = 'good' },
  voters: changeVoters,
  resign: (world) => { world.master()?.step((core) => { core.resign(world.now) }) }
}

/** Cuts every link between the nodes in the bit mask and the other nodes. */
function split (world: World, { mask, hard }: Fault): void {
  const side = (i: number): number => (mask >> i) & 1
  world.nodes.forEach((a, i) => {
    world.nodes.forEach((b, j) => {
      if (i < j && side(i) !== side(j)) world.cut(a, b, hard ? 'reset' : 'hole')
    })
  })
}

function between (world: World, { a, b, hard }: Fault, oneWay: boolean): void {
  const n = world.nodes.length
  if (n < 2) return
  world.cut(world.node(a), world.node(a + 1 + b % (n - 1)), hard ? 'reset' : 'hole', oneWay)
}

/** Adds node `a` to the voters or removes it, by a command entered at node `b`. */
function changeVoters (world: World, { a, b, at }: Fault): void {
  const { id } = world.node(a)
  const entry = world.node(b)
  const list = world.voters(entry)
  const next = list.includes(id) ? list.filter((other) => other !== id) : [...list, id]
  entry.step((core) => { core.changeVoters(`voters-${at}-${id}`, next, world.now) })
}

/** Injects a fault. */
export function strike (world: World, fault: Fault): void {
  world.faultBegins()
  APPLY[fault.kind](world, fault)
}

const faultOf = (kinds: readonly FaultKind[]): fc.Arbitrary<Fault> => fc.record({
  at: fc.integer({ min: 2000, max: HEALED - 2000 }),
  kind: fc.constantFrom(...kinds),
  a: fc.nat(9),
  b: fc.nat(9),
  mask: fc.nat(127),
  hard: fc.boolean()
})

/**
 * Random plans with one quorum setting. Half of them draw their faults from a few kinds only, so that faults
 * of the same kind often coincide.
 */
export function plans (mode: SimMode): fc.Arbitrary<Plan> {
  const swarm = fc.tuple(fc.boolean(), fc.subarray([...FAULT_KINDS], { minLength: 2, maxLength: 6 }))
  return swarm.chain(([few, kinds]) => fc.integer({ min: 1, max: 7 }).chain((n) => fc.record({
    mode: fc.constant(mode),
    n: fc.constant(n),
    voters: fc.oneof({ weight: 3, arbitrary: fc.constant(n) }, fc.integer({ min: 1, max: n })),
    seed: fc.nat(),
    rough: fc.boolean(),
    newer: fc.oneof(fc.constant(0), fc.nat(127)),
    faults: fc.array(faultOf(few ? kinds : FAULT_KINDS), { maxLength: 14 })
  })))
}
