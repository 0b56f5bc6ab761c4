/** A: `cluster.quorum: 1`. B: a majority of the voters. */
export type SimMode = 'A' | 'B'

export const FAULT_KINDS = [
  'crash', 'crashMaster', 'start', 'start', 'pause', 'pauseMaster', 'resume', 'resume', 'cut', 'link',
  'oneWay', 'heal', 'heal', 'diskSlow', 'diskFailing', 'diskGood', 'voters', 'resign'
] as const
export type FaultKind = typeof FAULT_KINDS[number]

/** One fault. What `a`, `b` and `mask` mean depends on the kind: nodes, or which nodes are on which side. */
export interface Fault {
  /** Virtual milliseconds. */
  readonly at: number
  readonly kind: FaultKind
  readonly a: number
  readonly b: number
  readonly mask: number
  /** A cut closes the connections instead of swallowing what they carry. */
  readonly hard: boolean
}

/** Everything that a run depends on: the same plan gives the same run. */
export interface Plan {
  readonly mode: SimMode
  /** Nodes, 1 to 7. */
  readonly n: number
  /** How many of them are voters at first, 1 to n. */
  readonly voters: number
  readonly seed: number
  readonly rough: boolean
  /** Bit i: node i is of a newer version, which says more than the others know. */
  readonly newer: number
  readonly faults: readonly Fault[]
}

/** Faults end here and everything is mended, virtual milliseconds. */
export const MENDED = 60_000
/** So long after it the cluster has to be well. */
export const RECOVERY = 45_000
/** No election in this last part of a run. */
export const QUIET = 10_000
