/**
 * How long the nodes take to choose a new master, milliseconds. A campaign ends earlier when every live
 * node answered.
 */
export const DEFAULT_ELECTION_TIMEOUT = 3000

/** Every duration of the election, milliseconds of a monotonic clock. Only differences mean anything. */
export interface Timing {
  /** Time between two heartbeats of a node. */
  readonly heartbeat: number
  /**
   * A peer that said nothing for so long counts as gone: three heartbeats, so that one lost beat elects
   * nobody.
   */
  readonly silence: number
  /** Longest wait for ballots. */
  readonly campaign: number
  /** A closed connection to the master must stay closed for so long before it counts. */
  readonly settle: number
  /** Longest wait for the answers to a pre-vote. */
  readonly preVote: number
  /** A node that heard its master within this time supports no other one. */
  readonly sticky: number
  /** Longest wait for the answers to a vote request; how often a master that stood still asks. */
  readonly vote: number
  /** A gap between two ticks above this means that this node itself stood still. */
  readonly stall: number
  /**
   * A node that just started waits so long for its connections before it suspects that there is no master.
   */
  readonly grace: number
  /** A candidate without enough votes tries again after `backoff` to `backoff + backoffSpread`. */
  readonly backoff: number
  readonly backoffSpread: number
  /** A command that was sent to a master fails after so long without an answer. */
  readonly command: number
  /** Sessions whose ages differ by less than one step count as equally old when two masters meet. */
  readonly ageStep: number
}

export const DEFAULT_TIMING: Timing = {
  heartbeat: 2000,
  silence: 6000,
  campaign: DEFAULT_ELECTION_TIMEOUT,
  settle: 200,
  preVote: 500,
  sticky: 2500,
  vote: 1000,
  stall: 1500,
  grace: 1000,
  backoff: 150,
  backoffSpread: 500,
  command: 10_000,
  ageStep: 4000
}

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

/** The settings of `cluster` that the election's times follow from, milliseconds. */
export interface TimingSettings { readonly heartbeat_ms: number, readonly election_timeout_ms: number }

/**
 * The election's times: those that have to do with silence grow and shrink with the heartbeat, those of a
 * vote with the election timeout. Throws RangeError when the two do not fit together.
 */
export function clusterTiming ({ heartbeat_ms: beat, election_timeout_ms: timeout }: TimingSettings): Timing {
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
