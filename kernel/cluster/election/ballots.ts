import type { Ballot, Freshness, NodeId, Token } from './types.js'

/** Below 0 when `a` comes first, above 0 when `b` does, 0 when they are equal. */
export type Order<T> = (a: T, b: T) => number

const text: Order<string> = (a, b) => a < b ? -1 : a > b ? 1 : 0

/** Which copy of the control data is newer: the term decides, then the length. */
export const byFreshness: Order<Freshness> = (a, b) => a.term - b.term || a.seq - b.seq

/** Fencing tokens: the term decides, then the master's id. */
export const byToken: Order<Token> = (a, b) => a.term - b.term || text(a.master, b.master)

/** Ballots: who may be master comes first, then who knows most, then who is preferred, then the id. */
export const byBallot: Order<Ballot> = (a, b) => Number(a.eligible) - Number(b.eligible) ||
  byFreshness(a, b) || a.weight - b.weight || text(a.nodeId, b.nodeId)

/** What two masters that meet are compared by. */
export interface Standing {
  readonly following: number
  /** Milliseconds. */
  readonly age: number
  readonly master: NodeId
}

/**
 * Of two masters the one with more followers wins, then the older session (in steps of `ageStep` ms), then
 * the id.
 */
export function byStanding (a: Standing, b: Standing, ageStep: number): number {
  return a.following - b.following || Math.floor(a.age / ageStep) - Math.floor(b.age / ageStep) ||
    text(a.master, b.master)
}

/** The greatest of some values; undefined when there are none. */
export function greatest<T> (values: Iterable<T>, order: Order<T>): T | undefined {
  let best: T | undefined
  for (const value of values) if (best === undefined || order(value, best) > 0) best = value
  return best
}
