import { strike } from './faults.js'
import { END } from './invariants.js'
import { Load } from './load.js'
import { CALM, ROUGH } from './network.js'
import { HEALED, type Plan } from './plan.js'
import { World, type Changes } from './world.js'

export interface Result {
  readonly violations: readonly string[]
  readonly elections: number
  readonly acked: number
  readonly opened: number
  readonly directives: number
  readonly messages: number
  readonly failovers: readonly number[]
}

/** Number of violations after which a run is stopped. */
const ENOUGH = 3
const HICCUPS = 0.02

/**
 * Runs a plan: 60 virtual seconds with faults, then 45 without. The same plan and code give the same result.
 */
export function simulate (plan: Plan, changes: Changes = {}): Result {
  const world = new World({ ...plan, weather: plan.rough ? ROUGH : CALM, hiccups: HICCUPS }, changes)
  const { schedule, random, check } = world
  for (const node of world.nodes) schedule.at(random() * 400, () => { world.start(node) })
  for (const fault of plan.faults) schedule.at(fault.at, () => { strike(world, fault) })
  const load = new Load(world)
  load.begin(3000, HEALED)
  const reconnect = (): void => {
    world.reconnect()
    schedule.after(1000, reconnect)
  }
  schedule.at(1000, reconnect)
  schedule.at(HEALED, () => { mend(world) })
  schedule.run(END, () => check.violations.length > ENOUGH)
  if (check.violations.length <= ENOUGH) check.finish(world.nodes)
  return {
    violations: check.violations,
    elections: check.elections,
    acked: check.acked.size,
    opened: check.streams.size,
    directives: check.directives,
    messages: world.messages,
    failovers: world.failovers
  }
}

function mend (world: World): void {
  world.faultBegins()
  for (const node of world.nodes) {
    node.diskFault = 'good'
    node.resume()
    world.start(node)
  }
  world.network.weather = CALM
  world.heal()
}
