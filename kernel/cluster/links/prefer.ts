/** What decides between two links to the same member. */
export interface Rival {
  /** Process start of the other end. */
  nodeId: string
  outgoing: boolean
  /** Counts our links. */
  serial: number
  /** The other end's count, and whether it had no other connection with us when it said so. */
  theirs: { serial: number, alone: boolean }
}

/**
 * True when `next`, whose hello came later, replaces `current`. Both ends see the same facts, so that they
 * keep the same one:
 * a link of another process start replaces; so does one that the other end opened later without having the
 * first any more (its end is dead, we have not noticed yet); else the one that the smaller id dialled stays.
 */
export function replaces (next: Rival, current: Rival, self: string, peer: string): boolean {
  if (next.nodeId !== current.nodeId) return next.serial > current.serial
  const later = next.theirs.serial > current.theirs.serial
  if (later && next.theirs.alone) return true
  if (!later && current.theirs.alone) return false
  if (next.outgoing === current.outgoing) {
    return next.outgoing ? next.serial > current.serial : later
  }
  return next.outgoing === (self < peer)
}
