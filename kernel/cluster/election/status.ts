import type { Elector } from './elector.js'
import type { Leader, NodeId, Role } from './types.js'

/** What a node says about its place in the cluster. */
export interface Status {
  readonly role: Role
  /** The master this node follows; null while there is none. */
  readonly leader: Leader | null
  /** Highest promised term. */
  readonly term: number
  /** A master that slept and has not heard yet whether it still is one. */
  readonly unverified: boolean
  /** `lost`: a majority is asked for and is not in reach. */
  readonly quorum: 'ok' | 'lost'
  /** No master, or one that was not heard lately: what is read here may be old. */
  readonly stale: boolean
  /** Some node that was known is out of reach. */
  readonly partition: boolean
  /** Every other node is gone: suspect this node first. */
  readonly alone: boolean
  readonly knownNodes: readonly NodeId[]
  readonly liveNodes: readonly NodeId[]
  readonly eligible: boolean
  /** False while the disk takes no promise. */
  readonly storing: boolean
}

export function statusOf (e: Elector, now: number): Status {
  const live = [e.id, ...e.liveness.alive(now)]
  const known = [e.id, ...e.liveness.known()]
  return {
    role: e.phase.role,
    leader: e.leader,
    term: e.promise.promised.term,
    unverified: e.phase.role === 'master' && e.phase.probe !== null,
    quorum: e.voices(live) >= e.needed() ? 'ok' : 'lost',
    stale: !e.hasLiveMaster(now),
    partition: live.length < known.length,
    alone: e.liveness.lostEveryone(now),
    knownNodes: known,
    liveNodes: live,
    eligible: e.eligible(now),
    storing: e.promise.storing
  }
}
