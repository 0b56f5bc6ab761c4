import type { CandidateNode, Neighbours } from './candidates.js'

export interface NodeCapacity { candidate: CandidateNode, layers: number }

export interface GroupShape {
  /** In a ring each node is linked to the next; in a star all nodes are linked to the first. */
  topology: 'ring' | 'star'
  size: number
  layers: number
}

/** Number of steps left for all ring searches together; negative once a search has been cut short. */
export interface Budget { steps: number }

/**
 * Finds a linked group of nodes with enough layers, in rank order, or null. Greedy: takes the earliest seat
 * that can still lead to a solution. Always finds a single node or a star if there is one. Finding a ring of
 * a given size is NP-hard, so that search has a budget; in a full mesh it takes one step per node.
 */
export function findGroup<S extends NodeCapacity> (
  seats: readonly S[], neighbours: Neighbours, shape: GroupShape, budget: Budget
): S[] | null {
  const { topology, size, layers } = shape
  if (mostLayers(seats, size) < layers) return null
  if (size === 1) return [seats.find((seat) => seat.layers >= layers)!]
  const near = new Map(seats.map((seat) => {
    const linked = neighbours(seat.candidate)
    return [seat, seats.filter(({ candidate }) => linked.has(candidate))]
  }))
  return topology === 'star' ? findStar(near, shape) : findRing(near, shape, budget)
}

/** Seats in order of preference; each seat's neighbours have the same order. */
type Graph<S extends NodeCapacity> = ReadonlyMap<S, readonly S[]>

/** Number of layers that the largest `size` seats hold together; -Infinity if there are fewer seats. */
function mostLayers (seats: readonly NodeCapacity[], size: number): number {
  if (seats.length < size) return -Infinity
  return seats.map(({ layers }) => layers).sort((a, b) => b - a).slice(0, size).reduce((a, b) => a + b, 0)
}

/** The first seat that, as driver, has neighbours for the remaining layers, and the neighbours it prefers. */
function findStar<S extends NodeCapacity> (near: Graph<S>, { size, layers }: GroupShape): S[] | null {
  for (const [driver, donors] of near) {
    if (driver.layers + mostLayers(donors, size - 1) < layers) continue
    const group = [driver]
    let missing = layers - driver.layers
    donors.forEach((donor, i) => {
      const others = size - group.length - 1
      if (others < 0 || donor.layers + mostLayers(donors.slice(i + 1), others) < missing) return
      group.push(donor)
      missing -= donor.layers
    })
    return group
  }
  return null
}

/**
 * Searches depth-first for a ring through each seat in turn, without the seats before it. The first pass
 * takes seats in order of preference. If half of the budget does not suffice, a second pass prefers the seat
 * with the fewest free neighbours, which finds long rings in sparse networks.
 */
function findRing<S extends NodeCapacity> (
  near: Graph<S>, { size, layers }: GroupShape, budget: Budget
): S[] | null {
  const free = new Set(near.keys())
  const path: S[] = []
  const waysOn = (from: S): S[] => near.get(from)!.filter((seat) => free.has(seat))
  const byFewestWays = (ways: S[]): S[] => {
    const counts = new Map(ways.map((seat) => [seat, waysOn(seat).length]))
    return ways.sort((a, b) => counts.get(a)! - counts.get(b)!)
  }
  const close = (next: S, until: number, narrowFirst: boolean): boolean => {
    if (--budget.steps < until) return false
    path.push(next)
    free.delete(next)
    const missing = layers - path.reduce((sum, seat) => sum + seat.layers, 0)
    if (mostLayers([...free], size - path.length) >= missing) {
      if (path.length === size && near.get(next)!.includes(path[0]!)) return true
      const ways = path.length === size ? [] : waysOn(next)
      if ((narrowFirst ? byFewestWays(ways) : ways).some((one) => close(one, until, narrowFirst))) return true
    }
    path.pop()
    free.add(next)
    return false
  }
  // Remove seats with too few neighbours: a ring needs two per seat, a ring of two seats only one.
  for (let seen = Infinity; free.size < seen;) {
    seen = free.size
    for (const seat of free) if (waysOn(seat).length < Math.min(2, size - 1)) free.delete(seat)
  }
  const starts = [...free]
  for (const narrowFirst of [false, true]) {
    const until = narrowFirst ? 0 : Math.floor(budget.steps / 2)
    for (const first of starts) {
      if (close(first, until, narrowFirst)) return path
      free.delete(first)
    }
    if (budget.steps >= until) return null
    for (const seat of starts) free.add(seat)
  }
  return null
}
