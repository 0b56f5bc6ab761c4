import type { Mode, NodeId } from './types.js'

/**
 * `cluster.quorum`: 1 stays available everywhere; a majority, or more than that, never loses what it
 * acknowledged.
 */
export type QuorumSetting = 'majority' | number

export interface Quorum {
  readonly mode: Mode
  /**
   * Least number of voters asked for, or all of them while there are fewer; a majority of the list is needed
   * in any case.
   */
  readonly atLeast: number
}

/**
 * Reads `cluster.quorum` for a list of voters.
 * @throws RangeError that names the numbers and what to set, for a number that is not 1 and not above half
 *   of the voters
 */
export function readQuorum (setting: QuorumSetting, voters: readonly NodeId[]): Quorum {
  if (setting === 1) return { mode: 'available', atLeast: 1 }
  const least = majorityOf(voters.length)
  if (setting === 'majority') return { mode: 'majority', atLeast: 1 }
  if (Number.isInteger(setting) && setting >= least) return { mode: 'majority', atLeast: setting }
  throw new RangeError(`cluster.quorum is ${setting}, but ${voters.length} voters need at least ${least}, ` +
    'so that two halves cannot both decide: set "majority", or 1 to stay available without that promise')
}

/** Smallest number of voters of which any two groups share one. */
export function majorityOf (voters: number): number {
  return Math.floor(voters / 2) + 1
}

/** How many votes are needed. Infinite while a node that needs a majority knows no voters. */
export function votesNeeded (quorum: Quorum, voters: readonly NodeId[]): number {
  if (quorum.mode === 'available') return 1
  const { length } = voters
  return length === 0 ? Infinity : Math.max(majorityOf(length), Math.min(quorum.atLeast, length))
}

/** How many of `nodes` have a vote: all of them in the available mode, else the voters. */
export function votesOf (quorum: Quorum, voters: readonly NodeId[], nodes: Iterable<NodeId>): number {
  let n = 0
  for (const id of nodes) if (quorum.mode === 'available' || voters.includes(id)) n++
  return n
}
