/** A runner that accepts tasks, as the node that asks knows it. */
export interface Candidate {
  readonly nodeId: string
  readonly installId: string
  readonly instanceId: string
  readonly runnerId: string
  /** It runs on the node that asks. */
  readonly own: boolean
  /** Tasks it is known to have open. */
  readonly load: number
}

/**
 * The runner with the least outstanding work. Between equals this node's own comes first, then the lower
 * instance id: every node decides alike. Undefined when there is none. Pure.
 */
export function choose<C extends Candidate> (candidates: readonly C[]): C | undefined {
  return candidates.toSorted(compare)[0]
}

/** The order in which runners are taken. */
export function compare (a: Candidate, b: Candidate): number {
  return a.load - b.load || Number(b.own) - Number(a.own) || byText(a.instanceId, b.instanceId) ||
    byText(a.runnerId, b.runnerId)
}

/** By code units: the order must not depend on a node's language. */
const byText = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
