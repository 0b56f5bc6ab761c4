import { CALM } from './network.js'
import { World } from './world.js'
import type { SimMode } from './plan.js'

export type Loss = 'kill' | 'stop' | 'cut'

const LIMIT = 60_000

const TAKE: { readonly [L in Loss]: (world: World) => void } = {
  kill: (world) => { world.crash(world.master()!) },
  stop: (world) => { world.pause(world.master()!) },
  cut: (world) => {
    const master = world.master()!
    for (const other of world.nodes) if (other !== master) world.cut(master, other, 'hole')
  }
}

/**
 * Milliseconds of virtual time from when a healthy cluster loses its master until another node is master;
 * Infinity if there is none within a minute.
 */
export function failover (mode: SimMode, n: number, loss: Loss, seed: number): number {
  const world = new World({ mode, n, voters: n, seed, newer: 0, weather: CALM, hiccups: 0 })
  for (const node of world.nodes) world.start(node)
  const { schedule } = world
  const reconnect = (): void => {
    world.reconnect()
    schedule.after(1000, reconnect)
  }
  reconnect()
  while (!world.nodes.every(({ leader }) => leader !== null)) schedule.run(world.now + 100)
  schedule.run(world.now + 10_000 + world.random() * 5000)
  const { elections } = world.check
  const start = world.now
  TAKE[loss](world)
  while (world.check.elections === elections && world.now < start + LIMIT) schedule.run(world.now + 1)
  return world.check.elections > elections ? world.check.lastElection - start : Infinity
}
