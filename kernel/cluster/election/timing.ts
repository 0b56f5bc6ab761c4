/** Every duration of the election, milliseconds of a monotonic clock. Only differences mean anything. */
export const DEFAULT_TIMING = {
  /** Time between two heartbeats of a node. */
  heartbeat: 2000,
  /**
   * A peer that said nothing for so long counts as gone: three heartbeats, so that one lost beat elects
   * nobody.
   */
  silence: 6000,
  /** `cluster.election_timeout_ms`: longest wait for ballots; it ends once every live node has answered. */
  campaign: 3000,
  /** A closed connection to the master must stay closed for so long before it counts. */
  settle: 200,
  /** Longest wait for the answers to a pre-vote. */
  preVote: 500,
  /** A node that heard its master within this time supports no other one. */
  sticky: 2500,
  /** Longest wait for the answers to a vote request; how often a master that stood still asks. */
  vote: 1000,
  /** A gap between two ticks above this means that this node itself stood still. */
  stall: 1500,
  /**
   * A node that just started waits so long for its connections before it suspects that there is no master.
   */
  grace: 1000,
  /** A candidate without enough votes tries again after `backoff` to `backoff + backoffSpread`. */
  backoff: 150,
  backoffSpread: 500,
  /** A command that was sent to a master fails after so long without an answer. */
  command: 10_000,
  /** Sessions whose ages differ by less than one step count as equally old when two masters meet. */
  ageStep: 4000
}
export type Timing = Readonly<typeof DEFAULT_TIMING>

/** Recommended time between two calls of `tick`, milliseconds. */
export const TICK = 200

/**
 * The default timing with some values replaced.
 * @throws RangeError that names the value, when one is not a positive number or the order between two does
 *   not hold
 */
export function timingWith (overrides: Partial<Timing> = {}): Timing {
  const timing = { ...DEFAULT_TIMING, ...overrides }
  for (const [name, ms] of Object.entries(timing)) {
    if (Number.isFinite(ms) && ms > 0) continue
    throw new RangeError(`timing.${name} is ${ms}: give milliseconds above 0`)
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

/**
 * The election's times out of two settings of `cluster`, in ms: those of silence follow the heartbeat, those
 * of a vote the election timeout. Throws RangeError when the two do not fit together.
 */
export function clusterTiming (
  { heartbeat_ms: beat, election_timeout_ms: timeout }: { heartbeat_ms: number, election_timeout_ms: number }
): Timing {
  const byBeat = beat / DEFAULT_TIMING.heartbeat
  const byVote = timeout / DEFAULT_TIMING.campaign
  const t = DEFAULT_TIMING
  return timingWith({
    heartbeat: beat,
    silence: t.silence * byBeat,
    sticky: t.sticky * byBeat,
    stall: t.stall * byBeat,
    ageStep: t.ageStep * byBeat,
    settle: Math.max(20, t.settle * byBeat),
    campaign: timeout,
    preVote: t.preVote * byVote,
    vote: t.vote * byVote,
    grace: t.grace * byVote,
    backoff: Math.max(20, t.backoff * byVote),
    backoffSpread: Math.max(50, t.backoffSpread * byVote)
  })
}
