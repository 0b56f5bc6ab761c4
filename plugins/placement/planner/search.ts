import type { Linked } from './links.js'
import type { Meter } from './types.js'

/** A node in a search: its index among the candidates and how many layers it can hold. */
export interface Seat { candidate: number, layers: number }

/** What is looked for among seats that are sorted by preference. */
export interface Quest {
  shape: 'ring' | 'star'
  size: number
  /** Layers that the chosen seats must hold together. */
  layers: number
}

/** Work that may still be done. `cut` tells that a search ended for want of it. */
export interface Budget { left: number, cut: boolean, meter: Meter }

/**
 * Positions of the seats chosen, in rank order, or null. Seats are preferred in the order given: the first
 * seat that can be part of a solution is, then the first that can go on from it, and so on. A star is always
 * found; a ring within the budget: finding rings of a given size is hard in general, while in the meshes and
 * near meshes of real clusters each step succeeds at once.
 */
export function findGroup (
  seats: readonly Seat[], linked: Linked, quest: Quest, budget: Budget
): number[] | null {
  if (quest.size === 1) {
    const at = seats.findIndex(({ layers }) => layers >= quest.layers)
    return at < 0 ? null : [at]
  }
  const everyone = seats.map((_, i) => i)
  if (mostLayers(seats, everyone, quest.size) < quest.layers) return null
  const graph: Graph = {
    seats,
    linked: (a, b) => {
      budget.meter.steps++
      return linked(seats[a]!.candidate, seats[b]!.candidate)
    }
  }
  return quest.shape === 'star' ? findStar(graph, quest) : findRing(graph, quest, budget)
}

interface Graph { seats: readonly Seat[], linked: Linked }

/** Layers that the best `size` of the positions hold; -Infinity when there are not that many. */
function mostLayers (seats: readonly Seat[], positions: readonly number[], size: number): number {
  if (positions.length < size) return -Infinity
  const layers = positions.map((i) => seats[i]!.layers).sort((a, b) => b - a)
  return layers.slice(0, size).reduce((a, b) => a + b, 0)
}

/** A driver and its neighbours: every driver in turn, and of its donors the preferred ones that suffice. */
function findStar ({ seats, linked }: Graph, { size, layers }: Quest): number[] | null {
  for (let driver = 0; driver < seats.length; driver++) {
    const donors = seats.map((_, i) => i).filter((i) => linked(driver, i))
    const missing = layers - seats[driver]!.layers
    if (mostLayers(seats, donors, size - 1) >= missing) {
      return [driver, ...preferred(seats, donors, size - 1, missing)]
    }
  }
  return null
}

/** The first of the positions, where the rest can still make up the layers; `size` of them do. */
function preferred (seats: readonly Seat[], positions: number[], size: number, layers: number): number[] {
  const chosen: number[] = []
  let missing = layers
  for (let i = 0; chosen.length < size; i++) {
    const at = positions[i]!
    const more = size - chosen.length - 1
    const held = seats[at]!.layers + mostLayers(seats, positions.slice(i + 1), more)
    if (held < missing) continue
    chosen.push(at)
    missing -= seats[at]!.layers
  }
  return chosen
}

/** Steps of one whole ring search, and the least that each of its starts gets. */
const SEARCH_STEPS = 50_000
const START_STEPS = 500
/** A step to the narrowest way costs about this many others. */
const NARROW_COST = 8

/**
 * Each ring is looked for from its most preferred seat on, so that later starts leave out earlier seats.
 * Where walking in order of preference ran out of steps, a second pass walks first to the seats that have
 * the fewest ways on, which finds long rings in large graphs.
 */
function findRing (graph: Graph, quest: Quest, budget: Budget): number[] | null {
  // In a mesh the first steps are right at once, without a look at the graph as a whole.
  const hasty = startWalk(graph, graph.seats.map((_, i) => i), quest, quest.size)
  if (extend(hasty, false)) return hasty.path
  const core = ringCore(graph, quest.size)
  const steps = Math.max(START_STEPS, Math.ceil(SEARCH_STEPS / Math.max(1, core.length)))
  const inOrder = walkAll(graph, core, quest, budget, steps, false)
  if (inOrder.path !== null || !inOrder.cut) return inOrder.path
  const narrow = walkAll(graph, core, quest, budget, Math.ceil(steps / NARROW_COST), true)
  budget.cut ||= narrow.path === null
  return narrow.path
}

/** One pass over all starts. `cut` tells that some start ran out of steps. */
function walkAll (
  graph: Graph, core: readonly number[], quest: Quest, budget: Budget, steps: number, narrowFirst: boolean
): { path: number[] | null, cut: boolean } {
  let cut = false
  for (let i = 0; i + quest.size <= core.length; i++) {
    const reach = inReach(graph, core.slice(i))
    if (mostLayers(graph.seats, reach, quest.size) < quest.layers) continue
    const walk = startWalk(graph, reach, quest, Math.min(steps, budget.left))
    const found = extend(walk, narrowFirst)
    budget.left -= walk.taken
    if (found) return { path: walk.path, cut }
    cut ||= walk.taken >= walk.allowed
  }
  return { path: null, cut }
}

/** Positions that the first one reaches, it included, in the order given. */
function inReach ({ linked }: Graph, positions: readonly number[]): number[] {
  const seen = new Set(positions.slice(0, 1))
  for (const at of seen) {
    if (seen.size === positions.length) break
    for (const next of positions) if (!seen.has(next) && linked(at, next)) seen.add(next)
  }
  return positions.filter((i) => seen.has(i))
}

/** Positions that can lie on a ring: those with two neighbours (a ring of two: one) that can. */
function ringCore ({ seats, linked }: Graph, size: number): number[] {
  const everyone = seats.map((_, i) => i)
  const ways = everyone.map((i) => everyone.filter((j) => linked(i, j)).length)
  const least = size === 2 ? 1 : 2
  const out = everyone.filter((i) => ways[i]! < least)
  const gone = new Set(out)
  for (const i of out) {
    for (const j of everyone) {
      if (!linked(i, j) || gone.has(j) || --ways[j]! >= least) continue
      gone.add(j)
      out.push(j)
    }
  }
  return everyone.filter((i) => !gone.has(i))
}

/** A path that grows to a ring. */
interface Walk {
  graph: Graph
  quest: Quest
  /** Positions to go to, the start included, in order of preference. */
  reach: readonly number[]
  used: Set<number>
  path: number[]
  layers: number
  taken: number
  allowed: number
}

function startWalk (graph: Graph, reach: readonly number[], quest: Quest, allowed: number): Walk {
  const start = reach[0]!
  const { layers } = graph.seats[start]!
  return { graph, quest, reach, used: new Set([start]), path: [start], layers, taken: 0, allowed }
}

/** Goes on from the end of the path; true once it is a ring, with the path in place. */
function extend (walk: Walk, narrowFirst: boolean): boolean {
  const { graph: { seats, linked }, quest, path, used } = walk
  const end = path[path.length - 1]!
  if (path.length === quest.size) return linked(end, path[0]!)
  for (const next of waysOn(walk, end, narrowFirst)) {
    if (walk.taken >= walk.allowed) return false
    walk.taken++
    const { layers } = seats[next]!
    used.add(next)
    path.push(next)
    walk.layers += layers
    if (canHold(walk) && extend(walk, narrowFirst)) return true
    walk.layers -= layers
    path.pop()
    used.delete(next)
  }
  return false
}

function * waysOn (walk: Walk, from: number, narrowFirst: boolean): Generator<number> {
  const { graph: { linked }, reach, used } = walk
  if (!narrowFirst) {
    for (const i of reach) if (!used.has(i) && linked(from, i)) yield i
    return
  }
  const free = reach.filter((i) => !used.has(i))
  const next = free.filter((i) => linked(from, i))
  const ways = new Map(next.map((i) => [i, free.filter((j) => linked(i, j)).length]))
  yield * next.sort((a, b) => ways.get(a)! - ways.get(b)! || a - b)
}

/** Whether the best of the seats left would make up the layers still missing. */
function canHold ({ graph: { seats }, quest, reach, used, path, layers }: Walk): boolean {
  if (layers >= quest.layers) return true
  const free = reach.filter((i) => !used.has(i))
  return layers + mostLayers(seats, free, quest.size - path.length) >= quest.layers
}
