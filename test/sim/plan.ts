/** Quorum setting of a run. A: `cluster.quorum: 1`. B: a majority of the voters. */
export type SimMode = 'A' | 'B'

export const FAULT_KINDS = [
  'crash', 'crashMaster', 'start', 'start', 'pause', 'pauseMaster', 'resume', 'resume', 'cut', 'link',
  'oneWay', 'heal', 'heal', 'diskSlow', 'diskFailing', 'diskGood', 'voters', 'resign'
] as const
export type FaultKind = typeof FAULT_KINDS[number]

/** One fault. `a`, `b` and `mask` depend on its kind: node numbers, or a bit mask of one side. */
export interface Fault {
  /** Virtual time in ms. */
  readonly at: number
  readonly kind: FaultKind
  readonly a: number
  readonly b: number
  readonly mask: number
  /** Whether a cut closes the connections; otherwise messages are silently held back or lost. */
  readonly hard: boolean
}

/** All inputs of a run: the same plan gives the same run. */
export interface Plan {
  readonly mode: SimMode
  /** Number of nodes, 1 to 7. */
  readonly n: number
  /** Number of initial voters, 1 to n. */
  readonly voters: number
  readonly seed: number
  readonly rough: boolean
  /** Bit i: node i has a newer version, which sends unknown fields and kinds. */
  readonly newer: number
  readonly faults: readonly Fault[]
}

/** Virtual time in ms at which faults end and everything is healed. */
export const HEALED = 60_000
/** Virtual ms after the faults end within which the cluster must become healthy. */
export const RECOVERY = 45_000
/** Virtual ms at the end of a run in which no election may occur. */
export const QUIET = 10_000
