import type { Neighbours } from './candidates.js'
import type { Meter } from './types.js'

/** A node in a search: its index among the candidates and how many layers it can hold. */
export interface Seat { candidate: number, layers: number }

/** The group of nodes that is looked for. */
export interface GroupShape {
  /** How its nodes must be connected: each with the next, or all with the first. */
  topology: 'ring' | 'star'
  size: number
  /** Layers that its nodes must hold together. */
  layers: number
}

/** Searches go on until `meter` shows `end`. `cut` tells that one of them had to stop for that. */
export interface SearchBudget { meter: Meter, end: number, cut: boolean }

/**
 * Positions of the seats chosen, in rank order, or null. Seats are preferred in the order given: the first
 * seat that can be part of a solution is, then the first that can go on from it, and so on. A star is always
 * found; a ring within the budget: finding rings of a given size is hard in general, while in the meshes and
 * near meshes of real clusters each step succeeds at once.
 */
export function findGroup (
  seats: readonly Seat[], neighbours: Neighbours, shape: GroupShape, budget: SearchBudget
): number[] | null {
  if (shape.size === 1) {
    const at = seats.findIndex(({ layers }) => layers >= shape.layers)
    return at < 0 ? null : [at]
  }
  if (mostLayers(seats, seats.map((_, i) => i), shape.size) < shape.layers) return null
  const positions = new Map(seats.map(({ candidate }, i) => [candidate, i]))
  const near = seats.map(({ candidate }) =>
    neighbours(candidate).flatMap((other) => positions.get(other) ?? []).sort((a, b) => a - b))
  return shape.topology === 'star'
    ? findStar({ seats, near }, shape)
    : findRing({ seats, near }, shape, budget)
}

/** Seats by their positions, and the positions with which each is linked, in order of preference. */
interface Graph { seats: readonly Seat[], near: readonly (readonly number[])[] }

/** Layers that the best `size` of the positions hold; -Infinity when there are not that many. */
function mostLayers (seats: readonly Seat[], positions: readonly number[], size: number): number {
  if (positions.length < size) return -Infinity
  const layers = positions.map((i) => seats[i]!.layers).sort((a, b) => b - a)
  return layers.slice(0, size).reduce((a, b) => a + b, 0)
}

/** A driver and its neighbours: every driver in turn, and of its donors the preferred ones that suffice. */
function findStar ({ seats, near }: Graph, { size, layers }: GroupShape): number[] | null {
  for (let driver = 0; driver < seats.length; driver++) {
    const donors = near[driver]!
    const missing = layers - seats[driver]!.layers
    if (mostLayers(seats, donors, size - 1) >= missing) {
      return [driver, ...preferred(seats, donors, size - 1, missing)]
    }
  }
  return null
}

/** The first of the positions, where the rest can still make up the layers; `size` of them do. */
function preferred (
  seats: readonly Seat[], positions: readonly number[], size: number, layers: number
): number[] {
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

/** Links that may be looked at for rings through one seat, before the next seat is tried. */
const LOOKS_PER_START = 200_000

/**
 * Looks for a ring through each seat in turn, without the seats before it. Where going on in order of
 * preference took too long, a second pass goes first to the seat with the fewest neighbours left, which
 * finds long rings in thin networks.
 */
function findRing (graph: Graph, shape: GroupShape, budget: SearchBudget): number[] | null {
  const { meter } = budget
  const core = ringCore(graph, shape.size)
  for (const narrowFirst of [false, true]) {
    let cut = false
    for (let i = 0; i + shape.size <= core.length; i++) {
      const end = Math.min(meter.steps + LOOKS_PER_START, budget.end)
      const free = new Set(core.slice(i + 1))
      const walk: Walk = { ...graph, shape, meter, end, narrowFirst, path: [core[i]!], free }
      if (canHold(walk) && closeRing(walk)) return walk.path
      cut ||= meter.steps >= end
    }
    if (!cut) return null
  }
  budget.cut = true
  return null
}

/** Positions that can lie on a ring: those with two neighbours (a ring of two: one) that can. */
function ringCore ({ seats, near }: Graph, size: number): number[] {
  const core = new Set(seats.keys())
  const check = (i: number): void => {
    const ways = near[i]!.filter((j) => core.has(j)).length
    if (ways < (size === 2 ? 1 : 2) && core.delete(i)) near[i]!.forEach(check)
  }
  for (const i of seats.keys()) check(i)
  return [...core]
}

/** A path that is to become a ring. */
interface Walk extends Graph {
  shape: GroupShape
  meter: Meter
  /** It is given up when the meter shows this. */
  end: number
  narrowFirst: boolean
  path: number[]
  /** Positions that are not on the path. */
  free: Set<number>
}

/** Goes on from the end of the path; true once it is a ring, with the path in place. */
function closeRing (walk: Walk): boolean {
  const { near, shape, path, free, meter } = walk
  if (path.length === shape.size) return near[path.at(-1)!]!.includes(path[0]!)
  for (const next of waysOn(walk)) {
    if (meter.steps >= walk.end) return false
    path.push(next)
    free.delete(next)
    if (canHold(walk) && closeRing(walk)) return true
    free.add(next)
    path.pop()
  }
  return false
}

function waysOn ({ near, free, path, narrowFirst, meter }: Walk): number[] {
  const ways = (from: number): number[] => {
    meter.steps += near[from]!.length
    return near[from]!.filter((i) => free.has(i))
  }
  const next = ways(path.at(-1)!)
  if (!narrowFirst) return next
  const counts = new Map(next.map((i) => [i, ways(i).length]))
  return next.sort((a, b) => counts.get(a)! - counts.get(b)! || a - b)
}

/** Whether the path, with the best of the seats left, holds all layers. */
function canHold ({ seats, shape, path, free }: Walk): boolean {
  const held = path.reduce((sum, i) => sum + seats[i]!.layers, 0)
  return held >= shape.layers ||
    held + mostLayers(seats, [...free], shape.size - path.length) >= shape.layers
}
