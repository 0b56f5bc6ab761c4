/** Durations of the election, in ms of a monotonic clock. */
export const DEFAULT_TIMING = {
  heartbeat: 2000,
  /** Silence after which a peer counts as gone: three heartbeats, so that a lost one is harmless. */
  silence: 6000,
  campaign: 3000,
  /** How long the connection to the master must be closed before an election starts. */
  settle: 200,
  preVote: 500,
  /** A node that received a message from its master within this time supports no other candidate. */
  sticky: 2500,
  /** Time limit for answers to a vote request, and interval of probes. */
  vote: 1000,
  /** A longer gap between two ticks means that this node was paused. */
  stall: 1500,
  /** Time after the start for connecting to peers; a missing master triggers no election before that. */
  grace: 1000,
  /** A candidate without enough votes tries again after `backoff` to `backoff + backoffSpread`. */
  backoff: 150,
  backoffSpread: 500,
  /** A command to a master fails after this time without an answer. */
  command: 10_000,
  /** Sessions whose ages differ by less than one step count as equally old when two masters meet. */
  ageStep: 4000
}
export type Timing = Readonly<typeof DEFAULT_TIMING>

/** Recommended interval between calls of `tick`, in ms. */
export const TICK = 200

/** The defaults with overrides. @throws RangeError for a duration that is not positive or too large */
export function timingWith (overrides: Partial<Timing> = {}): Timing {
  const timing = { ...DEFAULT_TIMING, ...overrides }
  for (const [name, ms] of Object.entries(timing)) {
    if (Number.isFinite(ms) && ms > 0) continue
    throw new RangeError(`timing.${name} is ${ms}: must be above 0 ms`)
  }
  below(timing, 'heartbeat', 'silence')
  below(timing, 'heartbeat', 'sticky')
  below(timing, 'sticky', 'silence')
  below(timing, 'stall', 'silence')
  return timing
}

function below (timing: Timing, low: keyof Timing, high: keyof Timing): void {
  if (timing[low] < timing[high]) return
  throw new RangeError(`timing.${low} (${timing[low]} ms) must be below timing.${high} (${timing[high]} ms)`)
}

/** Scales the times with the two settings. Throws RangeError if the results contradict each other. */
export function clusterTiming (
  { heartbeat_ms: beat, election_timeout_ms: timeout }: { heartbeat_ms: number, election_timeout_ms: number }
): Timing {
  const byBeat = beat / DEFAULT_TIMING.heartbeat
  const byVote = timeout / DEFAULT_TIMING.campaign
  const t = DEFAULT_TIMING
  return timingWith({
    heartbeat: beat, silence: t.silence * byBeat, sticky: t.sticky * byBeat, stall: t.stall * byBeat,
    ageStep: t.ageStep * byBeat, settle: Math.max(20, t.settle * byBeat), campaign: timeout,
    preVote: t.preVote * byVote, vote: t.vote * byVote, grace: t.grace * byVote,
    backoff: Math.max(20, t.backoff * byVote), backoffSpread: Math.max(50, t.backoffSpread * byVote)
  })
}
