/** A: `cluster.quorum: 1`. B: a majority of the voters. */
export type SimMode = 'A' | 'B'

export const FAULT_KINDS = [
  'crash', 'crashMaster', 'start', 'start', 'pause', 'pauseMaster', 'resume', 'resume', 'cut', 'link',
  'oneWay', 'heal', 'heal', 'diskSlow', 'diskFailing', 'diskGood', 'voters', 'resign'
] as const
export type FaultKind = typeof FAULT_KINDS[number]

/** One fault. `a`, `b` and `mask` depend on the kind: nodes, or a bit mask of one side. */
export interface Fault {
  /** Virtual milliseconds. */
  readonly at: number
  readonly kind: FaultKind
  readonly a: number
  readonly b: number
  readonly mask: number
  /** Whether a cut closes the connections instead of swallowing their messages. */
  readonly hard: boolean
}

/** All inputs of a run: the same plan gives the same run. */
export interface Plan {
  readonly mode: SimMode
  /** Nodes, 1 to 7. */
  readonly n: number
  /** Initial voters, 1 to n. */
  readonly voters: number
  readonly seed: number
  readonly rough: boolean
  /** Bit i: node i has a newer version, which sends unknown fields and kinds. */
  readonly newer: number
  readonly faults: readonly Fault[]
}

/** Faults end and everything is healed, virtual milliseconds. */
export const HEALED = 60_000
/** Time after that until the cluster must be healthy. */
export const RECOVERY = 45_000
/** No election in this last part of a run. */
export const QUIET = 10_000
