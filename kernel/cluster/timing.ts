import { DEFAULT_TIMING, timingWith } from './election/index.js'
import type { Timing } from './election/index.js'

/** The settings of `cluster` that the election's times follow from, milliseconds. */
export interface TimingSettings { readonly heartbeat_ms: number, readonly election_timeout_ms: number }

/**
 * The election's times: those that have to do with silence grow and shrink with the heartbeat, those of a
 * vote with the election timeout. Throws RangeError when the two do not fit together.
 */
export function clusterTiming ({ heartbeat_ms: beat, election_timeout_ms: vote }: TimingSettings): Timing {
  const byBeat = beat / DEFAULT_TIMING.heartbeat
  const byVote = vote / DEFAULT_TIMING.campaign
  const t = DEFAULT_TIMING
  return timingWith({
    heartbeat: beat,
    silence: t.silence * byBeat,
    sticky: t.sticky * byBeat,
    stall: t.stall * byBeat,
    ageStep: t.ageStep * byBeat,
    settle: Math.max(20, t.settle * byBeat),
    campaign: vote,
    preVote: t.preVote * byVote,
    claim: t.claim * byVote,
    grace: t.grace * byVote,
    backoff: Math.max(20, t.backoff * byVote),
    backoffSpread: Math.max(50, t.backoffSpread * byVote)
  })
}
